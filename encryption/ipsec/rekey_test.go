package ipsec_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/ipsec"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
)

// With new associations, packets have another number (SPI) on the underlay, and the kernel agrees with what it was
// told.
func TestRekey(t *testing.T) {
	for _, impl := range []string{"strongswan", "kernel"} {
		t.Run(impl, func(t *testing.T) {
			if impl == "strongswan" {
				testnet.NotInGuest(t, "the process does there what it does on the machine")
			}
			numbers := map[uint32]bool{}
			encryptiontest.Rekey(t, ipsec.Encryption{}, map[string]string{"impl": impl}, func(b *networktest.Bed) {
				now := sent(t, b)
				if numbers[now] {
					t.Errorf("packets have the number %x, as before", now)
				}
				numbers[now] = true
				if impl == "kernel" { // charon keeps the old ones for some seconds
					if err := b.Verify(t); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// sent returns the number that packets of host 1 have.
func sent(t *testing.T, b *networktest.Bed) uint32 {
	t.Helper()
	tap, err := carriertest.Listen(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	if err := b.Exchange("ipv4", 256); err != nil {
		t.Error(err)
	}
	frames, err := tap.Passed()
	if err != nil {
		t.Fatal(err)
	}
	var all []uint32
	const at = 14 + 20 + 8 // behind Ethernet, IPv4 and UDP: RFC 3948, section 2.1
	for _, f := range frames {
		if len(f) > at+256 && binary.BigEndian.Uint16(f[36:]) == 4500 {
			all = append(all, binary.BigEndian.Uint32(f[at:]))
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 1 {
		t.Fatalf("packets of host 1 have the numbers %x, want one", all)
	}
	return all[0]
}
