package overlay_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/overlay"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

func TestConformance(t *testing.T) { networktest.Conformance(t, overlay.Network{}) }

// composed is a lab whose segment has these parameters.
func composed(t *testing.T, hosts, pairs int, by string) network.Lab {
	t.Helper()
	kind := network.Kind{overlay.Network{}}
	lab := networktest.Lab(hosts, pairs)
	lab.Params = part.Params{"by": by}
	lab, err := network.Compose(lab, stack.Stack{{Kind: kind, Part: kind.Parts()[0], Params: lab.Params}})
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

func TestPlan(t *testing.T) {
	plans, ends, err := network.Join(overlay.Network{}, composed(t, 2, 1, "nettoll"))
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "plan", plans[0].String())
	for _, e := range []network.Endpoint{ends[0][0], ends[1][0]} {
		if !e.IPv4.IsValid() || !e.IPv6.IsValid() || e.Link != "" {
			t.Errorf("endpoint %+v, want addresses of both families, and no link of the host", e)
		}
	}
}

// TestDocker wants the addresses that Docker's overlays have: MAC addresses made from those of IPv4, and no IPv6.
func TestDocker(t *testing.T) {
	plans, ends, err := network.Join(overlay.Network{}, composed(t, 2, 1, "docker"))
	if err != nil {
		t.Fatal(err)
	}
	if e := ends[1][0]; e.IPv4.String() != "10.2.1.0" || e.IPv6.IsValid() {
		t.Errorf("endpoint %+v, want 10.2.1.0 and no address of IPv6", e)
	}
	if text := plans[0].String(); !strings.Contains(text, "; 10.2.1.0, 02:42:0a:02:01:00 at 198.18.0.2\n") {
		t.Errorf("plan of host 1 without the container of host 2 at the MAC address of Docker:\n%s", text)
	}
	for by, want := range map[string]bool{"nettoll": false, "docker": true} {
		if got := (overlay.Network{}).IPv4Only(part.Params{"by": by}) != ""; got != want {
			t.Errorf("IPv4Only with by=%s = %t, want %t", by, got, want)
		}
	}
}

// TestEmptyHost wants a host without containers to be no member of the segment, for a swarm waits for its members.
func TestEmptyHost(t *testing.T) {
	lab := networktest.Lab(3, 1)
	kind := network.Kind{overlay.Network{}}
	lab, err := network.Compose(lab, stack.Stack{{Kind: kind, Part: kind.Parts()[0]}})
	if err != nil {
		t.Fatal(err)
	}
	plans, _, err := network.Join(overlay.Network{}, lab)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range plans {
		for _, s := range p.Steps {
			if g, is := s.(host.Segment); is {
				if diff := cmp.Diff([]string{"198.18.0.1", "198.18.0.2"}, g.Hosts); diff != "" {
					t.Errorf("hosts of the segment on host %d (-want +got):\n%s", i+1, diff)
				}
			}
		}
	}
}

// TestQuiet wants hosts to send each other what containers send, and nothing else: the device answers who asks for a
// container of another host, and nobody hears who asks for an address that no container has.
func TestQuiet(t *testing.T) {
	b := networktest.Stand(t, overlay.Network{}, composed(t, 2, 1, "nettoll"))
	exchange := func(family string) {
		t.Helper()
		if err := b.Exchange(family, 28); err != nil {
			t.Fatal(err)
		}
	}
	sent := func() uint64 {
		t.Helper()
		trace, err := b.Hosts[0].Stack.Trace(t.Context(), b.Hosts[0].Kernel, host.Question{Links: []string{"overlay"}})
		if err != nil {
			t.Fatal(err)
		}
		n, ok := trace.Count(host.Sent("overlay", "vxlan0", "br0")) // up0 also sends what the kernel says of groups
		if !ok {
			t.Fatal("host1 does not count what vxlan0 sends")
		}
		return n
	}
	exchange("ipv6") // the hosts know each other on the underlay then
	before := sent()
	if err := b.Hosts[0].Kernel.Do("src0", func() error {
		c, err := net.Dial("udp4", "10.9.9.9:9")
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("anybody?"))
		return errors.Join(err, c.Close())
	}); err != nil {
		t.Fatal(err)
	}
	exchange("ipv4")
	if n := sent() - before; n != networktest.Exchanged {
		t.Errorf("host1 sent %d packets to host2, want the %d datagrams of its container alone", n, networktest.Exchanged)
	}
}

// TestUnfit wants an overlay to be refused on a tunnel that uses its port, with what helps.
func TestUnfit(t *testing.T) {
	lab := composed(t, 2, 1, "nettoll") // its uppermost span is VXLAN
	_, _, err := overlay.Network{}.Cross(lab)
	if _, ok := errors.AsType[*network.UnfitError](err); !ok || !strings.Contains(err.Error(), "UDP port 4789") {
		t.Errorf("Cross on VXLAN = %v, want an UnfitError that names the port", err)
	}
	lab.Spans = nil
	if _, _, err := (overlay.Network{}).Build(lab); err == nil || !strings.Contains(err.Error(), "network.Compose") {
		t.Errorf("Build of a lab that was not composed = %v, want an error that says so", err)
	}
}
