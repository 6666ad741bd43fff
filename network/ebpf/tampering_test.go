package ebpf_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	hostlink "github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/networktest"
)

// hooks says where the program is that forwards for containers, and its name.
func hooks(attach string) (bpf.Hook, string) {
	switch attach {
	case "tc":
		return bpf.Classifier, "nettoll_forward"
	case "xdp":
		return bpf.XDP, "nettoll_xdp"
	case "netkit":
		return bpf.NetkitPeer, "nettoll_netkit"
	}
	return bpf.TCXIngress, "nettoll_forward"
}

// What somebody does to the programs and their maps is named, and what is left can be undone.
func TestTampering(t *testing.T) {
	for _, attach := range []string{"tcx", "tc", "xdp", "netkit"} {
		hook, name := hooks(attach)
		// with calls f with the program at the link of the first container and its maps.
		with := func(f func(*bpf.Program, *bpf.Links, int) error) func() error {
			return func() error {
				links, err := bpf.Open()
				if err != nil {
					return err
				}
				defer links.Close()
				index := links.Index("vsrc0")
				ids, err := links.Attached(hook, index)
				if err != nil {
					return err
				}
				p, err := bpf.Find(ids, name)
				if err != nil {
					return err
				}
				if p == nil {
					return fmt.Errorf("no program %s among %v", name, ids)
				}
				defer p.Close()
				return f(p, links, index)
			}
		}
		for _, c := range []struct {
			what string
			do   func(*bpf.Program, *bpf.Links, int) error
			want string // of Verify
		}{
			{"detach the program", func(p *bpf.Program, _ *bpf.Links, index int) error {
				return detach(attach, p, index)
			}, "program " + name + " at " + hook.String() + " of vsrc0: want present, got absent"},
			{"delete an entry", func(p *bpf.Program, _ *bpf.Links, _ int) error {
				return p.Maps["containers4"].Delete([]byte{10, 1, 1, 1})
			}, "entry 10.1.1.1 of map containers4: want present, got absent"},
			{"misdirect an entry", func(p *bpf.Program, l *bpf.Links, _ int) error {
				key, value := []byte{10, 1, 1, 1}, make([]byte, 16)
				if err := p.Maps["containers4"].Lookup(key, value); err != nil {
					return err
				}
				value[4]++
				return p.Maps["containers4"].Put(key, value)
			}, "entry 10.1.1.1 of map containers4: want "},
			{"delete the link", func(_ *bpf.Program, _ *bpf.Links, index int) error {
				return netlink.LinkDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}})
			}, "link vsrc0: want present, got absent"},
		} {
			t.Run(attach+", "+c.what, func(t *testing.T) {
				b := stand(t, attach, networktest.Lab(1, 1))
				m := b.Hosts[0]
				if err := m.Do(with(c.do)); err != nil {
					t.Fatal(err)
				}
				f := m.Plans[len(m.Plans)-1].Steps
				err := f[len(f)-1].Verify(m.Kernel)
				if _, drift := errors.AsType[*host.DriftError](err); !drift || !strings.Contains(err.Error(), c.want) {
					t.Errorf("Verify says %v, want a drift with %q", err, c.want)
				}
			})
		}
	}
}

// Without the program packets pass all the same: the host's network stack forwards them, which is counted.
func TestForwardedByTheStack(t *testing.T) {
	for _, attach := range []string{"tcx", "tc"} {
		t.Run(attach, func(t *testing.T) {
			b := stand(t, attach, networktest.Lab(1, 1))
			if next, counted, err := b.Carry(t, ebpf.Network{}); errors.Join(next, counted, err) != nil {
				t.Fatalf("with the program: %v, %v, %v", next, counted, err)
			}
			if err := b.Hosts[0].Do(func() error {
				links, err := bpf.Open()
				if err != nil {
					return err
				}
				defer links.Close()
				hook, name := hooks(attach)
				index := links.Index("vsrc0")
				ids, err := links.Attached(hook, index)
				if err != nil {
					return err
				}
				p, err := bpf.Find(ids, name)
				if err != nil || p == nil {
					return fmt.Errorf("no program: %w", err)
				}
				defer p.Close()
				return detach(attach, p, index)
			}); err != nil {
				t.Fatal(err)
			}
			_, counted, err := b.Carry(t, ebpf.Network{})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				"forwarded by the host's network stack, but the plan expects none", // from the container
				fmt.Sprintf("counted %d packets that the eBPF program has forwarded, but at least %d arrived", // to it
					2*networktest.Exchanged, 4*networktest.Exchanged),
			} {
				if counted == nil || !strings.Contains(counted.Error(), want) {
					t.Errorf("counted: %v, want %q", counted, want)
				}
			}
		})
	}
}

// detach takes a program away from a link by force.
func detach(attach string, p *bpf.Program, index int) error {
	if attach == "tc" {
		return netlink.QdiscDel(&netlink.GenericQdisc{
			QdiscAttrs: netlink.QdiscAttrs{
				LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
			}, QdiscType: "clsact",
		})
	}
	done := errors.New("no link holds the program")
	err := bpf.EachLink(func(l link.Link) error {
		info, err := l.Info()
		if err != nil || info.Program != p.ID {
			return err
		}
		at := uint32(0)
		switch {
		case info.TCX() != nil:
			at = info.TCX().Ifindex
		case info.XDP() != nil:
			at = info.XDP().Ifindex
		case info.Netkit() != nil:
			at = info.Netkit().Ifindex
		}
		if at == uint32(index) {
			done = l.Detach()
		}
		return nil
	})
	return errors.Join(err, done)
}

// A range of another host that is gone from the trie is named, too, and so is one that was not there.
func TestTamperingWithRanges(t *testing.T) {
	b := stand(t, "tcx", networktest.Lab(2, 1))
	m := b.Hosts[0]
	if err := m.Do(func() error {
		links, err := bpf.Open()
		if err != nil {
			return err
		}
		defer links.Close()
		ids, err := links.Attached(bpf.TCXIngress, links.Index("up0"))
		if err != nil {
			return err
		}
		p, err := bpf.Find(ids, "nettoll_forward")
		if err != nil || p == nil {
			return fmt.Errorf("no program at the uplink: %w", err)
		}
		defer p.Close()
		key, value := make([]byte, 8), make([]byte, 8)
		i := p.Maps["ranges4"].Iterate()
		if !i.Next(&key, &value) {
			return i.Err()
		}
		old := append([]byte(nil), key...)
		key[5] = 9 // 10.9.0.0/16
		return errors.Join(p.Maps["ranges4"].Delete(old), p.Maps["ranges4"].Put(key, value))
	}); err != nil {
		t.Fatal(err)
	}
	var drift *host.DriftError
	if err := m.Stack.Verify(t.Context(), m.Kernel); !errors.As(err, &drift) {
		t.Fatalf("Verify says %v, want a drift", err)
	}
	want := []linux.Difference{
		{What: "entry 10.9.0.0 of map ranges4", Want: "absent", Got: "present"},
		{What: "entry 10.2.0.0 of map ranges4", Want: "present", Got: "absent"},
	}
	if diff := cmp.Diff(want, drift.Drifts); diff != "" {
		t.Errorf("drifts (-want +got):\n%s", diff)
	}
}

// A netkit is read back, too: its near end by its own step, the far one by that of its link.
func TestTamperingWithNetkit(t *testing.T) {
	for name, c := range map[string]struct {
		ns   string
		end  string
		do   func(*hostlink.Handle, int) error
		want string
	}{
		"down": {"", "vsrc0", func(h *hostlink.Handle, i int) error {
			return h.SetUp(i, false)
		}, "state of vsrc0: want up, got down"},
		"MTU": {"", "vsrc0", func(h *hostlink.Handle, i int) error {
			return h.SetMTU(i, 1300)
		}, "mtu of vsrc0: want 1440, got 1300"},
		"peer down": {"src0", "eth0", func(h *hostlink.Handle, i int) error {
			return h.SetUp(i, false)
		}, "state of eth0: want up, got down"},
	} {
		t.Run(name, func(t *testing.T) {
			b := stand(t, "netkit", networktest.Lab(1, 1))
			m := b.Hosts[0]
			h, err := m.Kernel.Links(c.ns)
			if err != nil {
				t.Fatal(err)
			}
			l, err := h.ByName(c.end)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.do(h, l.Index); err != nil {
				t.Fatal(err)
			}
			if err := m.Stack.Verify(t.Context(), m.Kernel); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Verify says %v, want %q", err, c.want)
			}
		})
	}
}
