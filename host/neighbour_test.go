package host_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestNeighbour(t *testing.T) {
	k, _ := kernel(t, nil)
	ctx := t.Context()
	neighbours := []host.Step{
		host.Neighbour{Dev: "br0", Addresses: []string{"10.1.1.0", "fd00:10:1::1:0"}, At: "02:00:00:00:00:03"},
		host.Neighbour{NS: "c", Dev: "eth0", Addresses: []string{"10.1.0.1", "fd00:10:1::1"}, At: "02:00:00:00:00:01"},
		host.Neighbour{Dev: "v0", Addresses: []string{"192.0.2.1", "2001:db8::1"}, Proxy: true},
	}
	index := func(ns, name string) (*link.Handle, int) {
		h, err := k.Links(ns)
		if err != nil {
			t.Fatal(err)
		}
		l, err := h.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		return h, l.Index
	}
	for _, c := range []struct {
		name   string
		tamper func() error
		want   string
	}{
		{"nothing", func() error { return nil }, ""},
		{"removed", func() error {
			h, i := index("", "br0")
			return h.DeleteNeighbour(link.Neighbour{Link: i, Address: netip.MustParseAddr("10.1.1.0")})
		}, "neighbour 10.1.1.0 of br0: want present, got absent"},
		{"of IPv6 moved", func() error {
			h, i := index("c", "eth0")
			return h.SetNeighbour(link.Neighbour{
				Link: i, Address: netip.MustParseAddr("fd00:10:1::1"), MAC: []byte{2, 0, 0, 0, 0, 9},
			})
		}, "neighbour fd00:10:1::1 of eth0: want 02:00:00:00:00:01, got 02:00:00:00:00:09"},
		{"not answered for", func() error {
			h, i := index("", "v0")
			return h.DeleteNeighbour(link.Neighbour{Link: i, Address: netip.MustParseAddr("2001:db8::1"), Proxy: true})
		}, "neighbour 2001:db8::1 of v0: want present, got absent"},
		{"link gone", func() error {
			h, i := index("", "v0")
			return h.Delete(i)
		}, "link v0: want present, got absent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var below, s host.Stack
			testnet.Skip(t, below.Apply(ctx, k, host.Plan{Steps: lab().Steps[:3]}))
			defer func() {
				if err := below.Undo(context.Background(), k); err != nil {
					t.Error(err)
				}
			}()
			for range 2 { // a step that was undone can be applied again
				if err := s.Apply(ctx, k, host.Plan{Steps: neighbours}); err != nil {
					t.Fatal(err)
				}
				if err := s.Verify(ctx, k); err != nil {
					t.Error(err)
				}
				if err := s.Undo(context.Background(), k); err != nil {
					t.Error(err)
				}
				for _, n := range neighbours {
					if _, ok := errors.AsType[*host.DriftError](n.Verify(k)); !ok {
						t.Errorf("undone, %q still agrees", n)
					}
				}
			}
			if err := s.Apply(ctx, k, host.Plan{Steps: neighbours}); err != nil {
				t.Fatal(err)
			}
			if err := c.tamper(); err != nil {
				t.Fatal(err)
			}
			err := s.Verify(ctx, k)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Verify = %v\nwant %q", err, c.want)
			}
			if err := s.Undo(context.Background(), k); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNeighbourErrors(t *testing.T) {
	k, _ := kernel(t, nil)
	for _, c := range []struct {
		step host.Neighbour
		want string
	}{
		{host.Neighbour{Dev: "lo", Addresses: []string{"10.0.0.1"}}, `neighbour through "lo": exactly one of a MAC address`},
		{
			host.Neighbour{Dev: "lo", Addresses: []string{"10.0.0.1"}, At: "02:00:00:00:00:01", Proxy: true},
			"exactly one of a MAC address (at) and proxy is required",
		},
		{
			host.Neighbour{Dev: "lo", Addresses: []string{"10.0.0.1/8"}, At: "02:00:00:00:00:01"},
			`invalid neighbour address "10.0.0.1/8"`,
		},
		{host.Neighbour{Dev: "lo", Addresses: []string{"10.0.0.1"}, At: "02"}, `invalid MAC address "02"`},
		{
			host.Neighbour{Dev: "none", Addresses: []string{"10.0.0.1"}, At: "02:00:00:00:00:01"},
			`read link "none": not found`,
		},
		{
			host.Neighbour{NS: "none", Dev: "lo", Addresses: []string{"10.0.0.1"}, At: "02:00:00:00:00:01"},
			`open namespace "none"`,
		},
	} {
		if err := c.step.Apply(t.Context(), k); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Apply of %q = %v\nwant %q", c.step, err, c.want)
		}
	}
}
