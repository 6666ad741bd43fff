package ipip_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/tunnel"
	"github.com/nettoll/nettoll/tunnel/ipip"
)

// stand builds a lab of two hosts with the tunnel.
func stand(t *testing.T, impl string) *networktest.Bed {
	t.Helper()
	chosen, err := stack.Kinds{tunnel.Kind{ipip.Tunnel{}}}.Choose("tunnel", "ipip", map[string]string{"impl": impl})
	if err != nil {
		t.Fatal(err)
	}
	lab, err := network.Compose(networktest.Lab(2, 1), stack.Stack{chosen})
	if err != nil {
		t.Fatal(err)
	}
	return networktest.Stand(t, bridge.Network{}, lab)
}

// drifted wants Verify on the first host to name what is not as planned.
func drifted(t *testing.T, b *networktest.Bed, want string) {
	t.Helper()
	err := b.Hosts[0].Stack.Verify(t.Context(), b.Hosts[0].Kernel)
	if _, drift := errors.AsType[*host.DriftError](err); !drift || !strings.Contains(err.Error(), want) {
		t.Errorf("Verify says %v, want a drift with %q", err, want)
	}
}

// What somebody does to the programs and their maps is named, and what is left can be undone.
func TestTamperingWithPrograms(t *testing.T) {
	for _, c := range []struct {
		what, at, program string
		hook              bpf.Hook
		do                func(*bpf.Program) error
		want              string
	}{
		{
			"detach what encapsulates", "ipip2", "nettoll_encap", bpf.TCXEgress, detach,
			"program nettoll_encap at tcx egress of ipip2: want present, got absent",
		},
		{
			"detach what decapsulates", "up0", "nettoll_decap", bpf.TCXIngress, detach,
			"program nettoll_decap at tcx ingress of up0: want present, got absent",
		},
		{"send elsewhere", "ipip2", "nettoll_encap", bpf.TCXEgress, func(p *bpf.Program) error {
			return change(p, "ways", func(_, value []byte) { value[23]++ })
		}, "of map ways: want "},
		{"let a stranger in", "up0", "nettoll_decap", bpf.TCXIngress, func(p *bpf.Program) error {
			return change(p, "peers", func(key, _ []byte) { key[7] = 77 })
		}, "of map peers: want absent, got present"},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := stand(t, "ebpf")
			if err := b.Hosts[0].Do(func() error {
				links, err := bpf.Open()
				if err != nil {
					return err
				}
				defer links.Close()
				ids, err := links.Attached(c.hook, links.Index(c.at))
				if err != nil {
					return err
				}
				p, err := bpf.Find(ids, c.program)
				if err != nil || p == nil {
					return fmt.Errorf("no program %s: %w", c.program, err)
				}
				defer p.Close()
				return c.do(p)
			}); err != nil {
				t.Fatal(err)
			}
			drifted(t, b, c.want)
		})
	}
}

// change replaces the only entry of a map by another one.
func change(p *bpf.Program, name string, how func(key, value []byte)) error {
	m := p.Maps[name]
	key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
	i := m.Iterate()
	if !i.Next(&key, &value) {
		return fmt.Errorf("map %q is empty: %w", name, i.Err())
	}
	if err := m.Delete(key); err != nil {
		return err
	}
	how(key, value)
	return m.Put(key, value)
}

// detach takes a program away by force, wherever it is hooked.
func detach(p *bpf.Program) error {
	done := errors.New("no link holds the program")
	err := bpf.EachLink(func(l link.Link) error {
		info, err := l.Info()
		if err != nil || info.Program != p.ID {
			return err
		}
		done = l.Detach()
		return nil
	})
	return errors.Join(err, done)
}

// The kernel's device is read back, too.
func TestTamperingWithDevice(t *testing.T) {
	b := stand(t, "kernel")
	if err := b.Hosts[0].Do(func() error {
		l, err := netlink.LinkByName("ipip2")
		if err != nil {
			return err
		}
		device, ok := l.(*netlink.Sittun)
		if !ok {
			return fmt.Errorf("ipip2 is a %T", l)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "ipip2"
		return netlink.LinkModify(&netlink.Sittun{
			LinkAttrs: attrs, Local: device.Local, Remote: []byte{198, 18, 0, 77}, Ttl: device.Ttl, Tos: device.Tos,
			PMtuDisc: device.PMtuDisc,
		})
	}); err != nil {
		t.Fatal(err)
	}
	drifted(t, b, "tunnel ipip2: want from 198.18.0.1 to 198.18.0.2")
}
