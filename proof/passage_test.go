package proof_test

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/proof"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// Two namespaces with a veth between them: what fits passes, and a byte more does not.
func TestPassage(t *testing.T) {
	const mtu, more = 1400, 20
	machine := testnet.New(t)
	kernel := func() (k *host.Kernel) {
		err := machine.Do(func() (err error) {
			k, err = host.NewKernel(host.KernelConfig{Dir: machine.Dir})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}()
	defer kernel.Close()
	var stack host.Stack
	plan := host.Plan{Steps: []host.Step{
		host.Namespace{Name: "a"},
		host.Namespace{Name: "b"},
		host.Veth{
			NS: "a", Name: "eth0", MAC: "02:00:00:00:00:01", MTU: mtu, Addresses: []string{"10.9.0.1/24"},
			PeerNS: "b", PeerName: "eth0", PeerMAC: "02:00:00:00:00:02", PeerAddresses: []string{"10.9.0.2/24"},
		},
	}}
	if err := stack.Apply(t.Context(), kernel, plan); err != nil {
		testnet.Skip(t, err)
	}
	defer func() {
		if err := stack.Undo(context.Background(), kernel); err != nil {
			t.Error(err)
		}
	}()
	if err := stack.Verify(t.Context(), kernel); err != nil {
		t.Fatal(err)
	}
	inside := func(name string, f func() error) {
		t.Helper()
		ns, err := netns.Open(machine.Dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer func(f *os.File) { _ = f.Close() }(ns)
		if err := netns.Do(int(ns.Fd()), f); err != nil {
			t.Fatal(err)
		}
	}
	a, b := netip.MustParseAddrPort("10.9.0.1:7001"), netip.MustParseAddrPort("10.9.0.2:7002")
	var mirror *proof.Mirror
	inside("b", func() (err error) { mirror, err = proof.NewMirror(b, a); return err })
	defer mirror.Close()
	try := func(to netip.AddrPort, payload int) error {
		var passage func() (int, error)
		inside("a", func() (err error) {
			passage, err = proof.Passage(a, to, payload, more, []byte("a mark"), proof.Patience{})
			return err
		})
		answered, err := passage()
		if err == nil && answered != more {
			t.Errorf("%d of %d further datagrams were answered", answered, more)
		}
		return err
	}
	if err := try(b, proof.FullPayload(mtu, false)); err != nil {
		t.Errorf("a packet as large as the MTU: %v", err)
	}
	if err := try(b, proof.FullPayload(mtu, false)+1); err == nil || !strings.Contains(err.Error(), "message too long") {
		t.Errorf("a packet one byte larger: %v, want that it is too long", err)
	}
	if err := try(netip.MustParseAddrPort("10.9.0.2:7003"), 100); err == nil {
		t.Error("a datagram to nobody came back")
	}
}
