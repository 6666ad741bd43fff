package workloadtest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload"
)

// VethName is the name of the links of [Veth].
const VethName = "eth0"

// Veth returns two places, each a network namespace of its own, joined by a veth pair of MTU 1500: 192.0.2.1 belongs to
// the source and 192.0.2.2 to the sink.
func Veth(t *testing.T) map[workload.Side]Where {
	t.Helper()
	places := map[workload.Side]Where{}
	source, sink := testnet.New(t), testnet.New(t)
	for i, m := range []*testnet.Machine{source, sink} {
		at := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
		places[[]workload.Side{workload.Source, workload.Sink}[i]] = Where{Address: at, Do: m.Do}
		testnet.Skip(t, m.Do(func() error {
			h, err := link.Open()
			if err != nil {
				return err
			}
			defer h.Close()
			if m == source {
				if _, err := h.AddVeth(link.Veth{Name: VethName, PeerName: VethName, PeerNS: sink.NS, MTU: 1500}); err != nil {
					return err
				}
			}
			l, err := h.ByName(VethName)
			if err != nil {
				return err
			}
			if err := h.AddAddress(l.Index, netip.PrefixFrom(at, 24)); err != nil {
				return err
			}
			return h.SetUp(l.Index, true)
		}))
	}
	return places
}

// Settled waits until packets to the address of a place are accepted. For an IPv6 address that comes after the address
// itself, and a lost first SYN is only repeated after a second: see [link.Handle.Local].
func Settled(t *testing.T, w Where) {
	t.Helper()
	err := w.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			local, err := h.Local(w.Address)
			if err != nil || local {
				return err
			}
			if time.Now().After(end) {
				t.Errorf("packets to %s are not taken in", w.Address)
				return nil
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
