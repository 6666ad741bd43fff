package host_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/macvlan"
)

// TestMoveLink moves a link of the machine into a container and back. One end of a veth represents that link.
func TestMoveLink(t *testing.T) {
	machine := testnet.New(t)
	k, _ := kernel(t, map[string]*os.File{"netns:machine": machine.NS})
	ctx := t.Context()
	var beneath, s host.Stack
	testnet.Skip(t, beneath.Apply(ctx, k, host.Plan{Steps: []host.Step{
		host.Veth{
			NS: host.Machine, Name: "nic0", MAC: "02:00:00:00:00:05", MTU: 1500, PeerNS: host.Machine,
			PeerName: "wire0",
		},
	}}))
	before := links(t, k, host.Machine)
	p := host.Plan{Steps: []host.Step{
		host.Namespace{Name: "c"},
		host.MoveLink{
			FromNS: host.Machine, From: "nic0", NS: "c", Name: "eth0", MTU: 1400,
			Addresses: []string{"198.18.1.0/16", "fd00:198:18::1:0/48"}, Timed: true,
		},
	}}
	for range 2 {
		if err := s.Apply(ctx, k, p); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(ctx, k); err != nil {
			t.Error(err)
		}
		if got := links(t, k, "c"); !strings.Contains(got, "eth0 veth 02:00:00:00:00:05") ||
			!strings.Contains(got, "198.18.1.0/16") {
			t.Errorf("in the container there is %s, want eth0", got)
		}
		if got := links(t, k, host.Machine); strings.Contains(got, "nic0") {
			t.Errorf("on the machine there still is %s", got)
		}
		if took := k.Report().Metrics["plug_time"]; took <= 0 || took > 2 {
			t.Errorf("plug_time is %v s", took)
		} else {
			t.Logf("plug_time is %v", time.Duration(took*float64(time.Second)))
		}
		if err := s.Undo(context.Background(), k); err != nil {
			t.Error(err)
		}
		if after := links(t, k, host.Machine); after != before {
			t.Errorf("after Undo there is %s, before there was %s", after, before)
		}
		h, err := k.Links(host.Machine)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := h.ByName("nic0"); err != nil || !l.Up || l.MTU != 1500 {
			t.Errorf("after Undo the link is %+v (%v), want it up and with its MTU", l, err)
		}
	}
	if err := beneath.Undo(context.Background(), k); err != nil {
		t.Error(err)
	}
}

// TestMoveLinkRefused checks that a link that is in use stays where it is.
func TestMoveLinkRefused(t *testing.T) {
	machine := testnet.New(t)
	k, _ := kernel(t, map[string]*os.File{"netns:machine": machine.NS})
	for _, c := range []struct {
		name string
		more []host.Step
		from string
		want string
	}{
		{"loopback link", nil, "lo", `link "lo" cannot be moved: it is the loopback link`},
		{
			"with an address",
			[]host.Step{host.Link{NS: host.Machine, Name: "nic0", Addresses: []string{"192.0.2.1/24"}}},
			"nic0", "it has the address 192.0.2.1/24",
		},
		{"way out", []host.Step{
			host.Link{NS: host.Machine, Name: "nic0", Addresses: []string{"192.0.2.1/24"}}, host.Route{
				NS: host.Machine, To: "0.0.0.0/0", Via: "192.0.2.2",
			},
		}, "nic0", "it is the machine's only way out"},
		{
			"way out of IPv6 by a link alone",
			[]host.Step{host.Route{NS: host.Machine, To: "::/0", Dev: "nic0"}},
			"nic0",
			"it is the machine's only way out",
		},
		{"one of two ways out", []host.Step{
			host.Route{NS: host.Machine, To: "::/0", Dev: "nic0"}, host.Route{NS: host.Machine, To: "0.0.0.0/0", Dev: "wire0"},
		}, "nic0", "a default route goes through it"},
		{"part of a bridge", []host.Step{
			host.Bridge{NS: host.Machine, Name: "br0"}, host.Veth{
				NS: host.Machine, Name: "nic1", Master: "br0", PeerNS: host.Machine, PeerName: "wire1",
			},
		}, "nic1", "it is a port of link"},
		{"below another", []host.Step{
			macvlan.Link{Upper: host.Upper{
				NS: host.Machine, Name: "m0", Mode: "bridge", LowerNS: host.Machine, Lower: "nic0",
			}},
		}, "nic0", `"m0" stands on it`},
		{"gone", nil, "none", `read link "none": not found`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var beneath, s host.Stack
			testnet.Skip(t, beneath.Apply(t.Context(), k, host.Plan{Steps: append([]host.Step{
				host.Veth{NS: host.Machine, Name: "nic0", PeerNS: host.Machine, PeerName: "wire0"},
			}, c.more...)}))
			err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
				host.Namespace{Name: "c"}, host.MoveLink{FromNS: host.Machine, From: c.from, NS: "c", Name: "eth0"},
			}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Apply = %v\nwant %q", err, c.want)
			}
			if after := links(t, k, host.Machine); c.from != "none" && !strings.Contains(after, c.from+" ") {
				t.Errorf("there is %s, want %s to be there still", after, c.from)
			}
			if err := errors.Join(s.Undo(context.Background(), k), beneath.Undo(context.Background(), k)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMoveLinkLost ends a container without undoing its plan, with the link in it.
func TestMoveLinkLost(t *testing.T) {
	k, _ := kernel(t, nil)
	var s host.Stack
	testnet.Skip(t, s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		host.Namespace{Name: "c"},
		host.Veth{Name: "jack0", PeerName: "nic0", PeerMoves: true},
		host.MoveLink{From: "nic0", NS: "c", Name: "eth0"},
	}}))
	if err := s.Verify(t.Context(), k); err != nil {
		t.Error(err)
	}
	h, err := k.Links("c")
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.ByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Delete(l.Index); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*host.DriftError](s.Verify(t.Context(), k)); !ok {
		t.Error("Verify does not see that the link is gone")
	}
	if err := s.Undo(context.Background(), k); err != nil {
		t.Error(err)
	}
	if got := links(t, k, ""); strings.Contains(got, "jack0") || strings.Contains(got, "nic0") {
		t.Errorf("after Undo there is %s", got)
	}
}
