package ebpf

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/filter/filtertest"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/bpf/allow"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	networkebpf "github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/routed"
)

// with calls f with the program at the first link of a site.
func with(k *host.Kernel, s filter.Site, f func(p *bpf.Program) error) error {
	return at(k, s, bpf.TCXIngress, "nettoll_filter", f)
}

// toward does the same with the program at the link's egress, where there is one.
func toward(k *host.Kernel, s filter.Site, f func(p *bpf.Program) error) error {
	if !s.Params.On(filter.Antispoof) {
		return errors.ErrUnsupported
	}
	return at(k, s, bpf.TCXEgress, "nettoll_toward", f)
}

// at calls f with the program of a name at a hook of the first link of a site.
func at(k *host.Kernel, s filter.Site, hook bpf.Hook, name string, f func(p *bpf.Program) error) error {
	return k.Do("", func() error {
		links, err := bpf.Open()
		if err != nil {
			return err
		}
		defer links.Close()
		ids, err := links.Attached(hook, links.Index(s.Containers[0].Link))
		if err != nil {
			return err
		}
		p, err := bpf.Find(ids, name)
		if err != nil {
			return err
		}
		if p == nil {
			return fmt.Errorf("no program among %v", ids)
		}
		defer p.Close()
		return f(p)
	})
}

func subject() filtertest.Subject {
	return filtertest.Subject{
		Filter: Filter{},
		// The programs at all links.
		State: func(k *host.Kernel, ns string) (text string, err error) {
			err = k.Do(ns, func() error {
				links, err := bpf.Open()
				if err != nil {
					return err
				}
				defer links.Close()
				for i := range 40 {
					for _, hook := range []bpf.Hook{bpf.TCXIngress, bpf.TCXEgress} {
						if ids, err := links.Attached(hook, i+1); err == nil && len(ids) > 0 {
							text += fmt.Sprintln(i+1, hook, ids)
						}
					}
				}
				return nil
			})
			return text, err
		},
		Tampers: []filtertest.Tamper{
			{Text: "delete a pair of the list", Do: func(k *host.Kernel, s filter.Site) error {
				if s.Params[match] == allow.Program {
					return errors.ErrUnsupported
				}
				return with(k, s, func(p *bpf.Program) error { return deleteFirst(p, "rules4") })
			}},
			{Text: "detach the program from a link", Do: detach},
			{Text: "delete a pair of IPv6", Do: func(k *host.Kernel, s filter.Site) error {
				if s.Params[match] == allow.Program {
					return errors.ErrUnsupported
				}
				return with(k, s, func(p *bpf.Program) error { return deleteFirst(p, "rules6") })
			}},
			{Text: "let another rule in", Do: func(k *host.Kernel, s filter.Site) error {
				r := s.List.Allowed[0]
				l := Listing{Match: s.Params[match], List: s.List, Links: []string{s.Containers[0].Link}}
				return k.Do("", func() error {
					return allow.UpdateRule(l.list(), allow.Rule{Source: r.Sink, Sink: r.Source, First: 1, Last: 65535}, true)
				})
			}},
			{Text: "put another program in its place", Do: func(k *host.Kernel, s filter.Site) error {
				return with(k, s, func(p *bpf.Program) error {
					return hooked(p, s, func(l link.Link) error {
						return pass("nettoll_filter", ebpf.AttachTCXIngress, -1, func(other *ebpf.Program) error {
							return l.Update(other)
						})
					})
				})
			}},
			{Text: "detach the program at the egress of a link", Do: func(k *host.Kernel, s filter.Site) error {
				return toward(k, s, func(p *bpf.Program) error {
					return hooked(p, s, func(l link.Link) error { return l.Detach() })
				})
			}},
			{Text: "put another program in its place at the egress", Do: func(k *host.Kernel, s filter.Site) error {
				return toward(k, s, func(p *bpf.Program) error {
					return hooked(p, s, func(l link.Link) error {
						return pass("nettoll_toward", ebpf.AttachTCXEgress, -1, func(other *ebpf.Program) error {
							return l.Update(other)
						})
					})
				})
			}},
			{Text: "make a container's address another's", Do: func(k *host.Kernel, s filter.Site) error {
				return toward(k, s, func(p *bpf.Program) error {
					var index uint32
					var binding [44]byte
					if err := p.Maps["bindings"].NextKey(nil, &index); err != nil {
						return err
					}
					if err := p.Maps["bindings"].Lookup(index, &binding); err != nil {
						return err
					}
					binding[36] ^= 0x10 // of its MAC address
					return p.Maps["bindings"].Put(index, binding)
				})
			}},
			{Text: "make a container's address the host's", Do: func(k *host.Kernel, s filter.Site) error {
				return with(k, s, func(p *bpf.Program) error {
					key := make([]byte, 20)
					copy(key, s.Containers[0].IPv4.AsSlice())
					return p.Maps["own"].Put(key, []byte{0})
				})
			}},
			{Text: "free a link", Do: func(k *host.Kernel, s filter.Site) error {
				if !s.Params.On(filter.Antispoof) {
					return errors.ErrUnsupported
				}
				return with(k, s, func(p *bpf.Program) error {
					var index uint32
					var binding [44]byte
					for all := p.Maps["bindings"].Iterate(); all.Next(&index, &binding); {
						if binding[42] == 0 { // a container's: an uplink is free already
							binding[42] = 1
							return p.Maps["bindings"].Put(index, binding)
						}
					}
					return errors.New("every link is free")
				})
			}},
			// The last two: they stay at the link.
			{Text: "let another program decide first at the egress", Do: func(k *host.Kernel, s filter.Site) error {
				if !s.Params.On(filter.Antispoof) {
					return errors.ErrUnsupported
				}
				return first(k, s, ebpf.AttachTCXEgress)
			}},
			{Text: "let another program decide first", Do: func(k *host.Kernel, s filter.Site) error {
				return first(k, s, ebpf.AttachTCXIngress)
			}},
		},
	}
}

// detach takes the program away from the first link.
func detach(k *host.Kernel, s filter.Site) error {
	return with(k, s, func(p *bpf.Program) error { return hooked(p, s, func(l link.Link) error { return l.Detach() }) })
}

// first puts a program before that of the filter at a hook of the second link. It says TCX_PASS: what is behind it on
// the hook does not run.
func first(k *host.Kernel, s filter.Site, hook ebpf.AttachType) error {
	return k.Do("", func() error {
		links, err := bpf.Open()
		if err != nil {
			return err
		}
		defer links.Close()
		return pass("nettoll_first", hook, 0, func(other *ebpf.Program) error {
			return link.RawAttachProgram(link.RawAttachProgramOptions{
				Target: links.Index(s.Containers[1].Link), Program: other, Attach: hook, Anchor: link.Head(),
			})
		})
	})
}

// hooked calls f with what holds the program at the first link.
func hooked(p *bpf.Program, s filter.Site, f func(link.Link) error) error {
	index, err := net.InterfaceByName(s.Containers[0].Link)
	if err != nil {
		return err
	}
	found := errors.New("no such link of a program")
	err = bpf.EachLink(func(l link.Link) error {
		info, err := l.Info()
		if err == nil && info.Program == p.ID && info.TCX() != nil && info.TCX().Ifindex == uint32(index.Index) {
			found = f(l)
		}
		return err
	})
	return errors.Join(err, found)
}

// pass calls f with a program that says the same of every packet.
func pass(name string, hook ebpf.AttachType, verdict int32, f func(*ebpf.Program) error) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SchedCLS, AttachType: hook, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
	})
	if err != nil {
		return err
	}
	return errors.Join(f(p), p.Close())
}

// deleteFirst deletes the first entry of a map.
func deleteFirst(p *bpf.Program, name string) error {
	m := p.Maps[name]
	key := make([]byte, m.KeySize())
	if err := m.NextKey(nil, &key); err != nil {
		return err
	}
	return m.Delete(key)
}

func TestConformance(t *testing.T) {
	all, few := subject(), subject()
	few.Tampers = few.Tampers[1:4]
	on := func(hosts int, networks ...filtertest.On) []filtertest.On {
		for i := range networks {
			networks[i].Hosts = hosts
		}
		return networks
	}
	redirect, bridged, routes := filtertest.On{Network: networkebpf.Network{}}, filtertest.On{Network: bridge.Network{}},
		filtertest.On{Network: routed.Network{}}
	for _, c := range []struct {
		subject filtertest.Subject
		on      []filtertest.On
		params  map[string]string
	}{
		{all, on(1, redirect), map[string]string{}},
		{few, on(2, redirect), map[string]string{filter.Stateful: "true"}},
		{few, on(1, bridged), map[string]string{match: allow.LPM}},
		{all, on(2, bridged), map[string]string{filter.Antispoof: "true"}},
		{all, on(1, filtertest.On{Network: networkebpf.Network{}}), map[string]string{
			match: allow.Program, filter.Stateful: "true", filter.Antispoof: "true",
		}},
		{few, on(1, redirect), map[string]string{match: allow.Program, filter.Stateful: "true"}},
		{few, on(2, bridged), map[string]string{match: allow.Program}},
		{few, on(2, routes), map[string]string{match: allow.LPM, filter.Stateful: "true"}},
	} {
		c.params[filter.Rules] = "5"
		t.Run(strings.Join([]string{c.on[0].Network.Describe().Name, fmt.Sprint(c.on[0].Hosts)}, ","), func(t *testing.T) {
			t.Parallel()
			filtertest.Conformance(t, c.subject, c.on, c.params)
		})
	}
}

// A kernel without tcx is said to lack it, and what to use there is said, too.
func TestCheck(t *testing.T) {
	testnet.Root(t)
	for _, way := range allow.Ways() {
		t.Run(way, func(t *testing.T) {
			params, err := Filter{}.Describe().Params.Resolve("filter ebpf", map[string]string{match: way})
			if err != nil {
				t.Fatal(err)
			}
			err = Filter{}.Check(params)
			if u, ok := errors.AsType[*linux.UnsupportedError](err); ok &&
				(u.Missing != "tcx" || !strings.Contains(u.Hint, "nftables") || strings.Contains(err.Error(), "attach=tc ")) {
				t.Errorf("Check = %v, want what is missing and what is nearest", err)
			}
			testnet.Skip(t, err)
		})
	}
}

// Where it cannot be it says so before anything is built.
func TestRefuse(t *testing.T) {
	for _, c := range []struct {
		where  filter.Where
		params map[string]string
		want   string
	}{
		{filter.Where{Network: "ebpf", Point: network.AtTCX, Hosts: 2}, nil, ""},
		{filter.Where{Network: "nat", Point: network.AtForward, Hosts: 1}, nil, ""},
		{
			filter.Where{Network: "nat", Point: network.AtForward, Hosts: 2, Translated: true},
			nil,
			"are not yet translated",
		},
		{filter.Where{Network: "macvlan", Point: network.InContainer, Hosts: 1}, nil, "and macvlan has none"},
		{filter.Where{Network: "ovs", Point: network.AtOpenFlow, Hosts: 1}, nil, "filter ovs"},
		{
			filter.Where{Network: "bridge", Point: network.AtBridge, Hosts: 1},
			map[string]string{match: allow.Program, filter.Rules: "10000"},
			"",
		},
		{
			filter.Where{Network: "bridge", Point: network.AtBridge, Hosts: 1},
			map[string]string{match: allow.Program, filter.Rules: "10001"},
			"match=hash",
		},
		{
			filter.Where{Network: "bridge", Point: network.AtBridge, Hosts: 1},
			map[string]string{match: allow.LPM, filter.Rules: "100000"},
			"",
		},
	} {
		params, err := Filter{}.Describe().Params.Resolve("filter ebpf", c.params)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Filter{}).Refuse(c.where, params); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v with %v: refused because %q, want %q in it", c.where, c.params, got, c.want)
		}
	}
}
