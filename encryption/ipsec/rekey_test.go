package ipsec_test

import (
	"encoding/binary"
	"testing"

	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/ipsec"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
)

// With new associations, packets have another number (SPI) on the underlay.
func TestRekey(t *testing.T) {
	numbers := map[uint32]bool{}
	encryptiontest.Rekey(t, ipsec.Encryption{}, map[string]string{"impl": "strongswan"}, func(b *networktest.Bed) {
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
		now := map[uint32]bool{}
		const at = 14 + 20 + 8 // behind Ethernet, IPv4 and UDP: RFC 3948, section 2.1
		for _, f := range frames {
			if len(f) > at+256 && binary.BigEndian.Uint16(f[36:]) == 4500 {
				now[binary.BigEndian.Uint32(f[at:])] = true
			}
		}
		if len(now) != 1 {
			t.Errorf("packets of host 1 have %d numbers, want one", len(now))
		}
		for n := range now {
			if numbers[n] {
				t.Errorf("packets have the number %x, as before", n)
			}
			numbers[n] = true
		}
	})
}
