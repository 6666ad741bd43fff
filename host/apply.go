package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/nft"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

// UndoneFirst makes Namespace a [FirstUndone].
func (Namespace) UndoneFirst() {}

// Apply makes the namespace and sets its loopback link up.
func (n Namespace) Apply(k *Kernel) (func() error, error) {
	s, err := k.make(n.Name)
	if err != nil {
		return nil, err
	}
	undo := func() error { return k.remove(s) }
	h, err := k.handle(s)
	if err == nil {
		err = h.SetUp(loopback, true)
	}
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

// loopback is the index of lo in every namespace: it is the first link to be registered there
// (LOOPBACK_IFINDEX, include/net/flow.h).
const loopback = 1

// loopbackAddress is what the kernel gives lo when it is set up for the first time, and leaves there when it is set down (net/ipv4/devinet.c,
// inetdev_event).
func loopbackAddress() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 8)
}

// Apply makes the bridge.
func (b Bridge) Apply(k *Kernel) (func() error, error) {
	mac, err := parseMAC(b.MAC)
	if err != nil {
		return nil, err
	}
	addresses, err := parseAddresses(b.Addresses)
	if err != nil {
		return nil, err
	}
	s, h, err := k.at(b.NS)
	if err != nil {
		return nil, err
	}
	index, err := h.AddBridge(link.Bridge{Name: b.Name, MAC: mac, MTU: b.MTU, Snooping: b.Snooping})
	if err != nil {
		return nil, err
	}
	k.remember(s, b.Name, index)
	undo := func() error { return k.removeLink(s, index, b.Name, nil) }
	if err := addAddresses(h, index, addresses); err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

// Apply makes both ends, each in its namespace.
func (v Veth) Apply(k *Kernel) (func() error, error) {
	mac, err := parseMAC(v.MAC)
	if err != nil {
		return nil, err
	}
	peerMAC, err := parseMAC(v.PeerMAC)
	if err != nil {
		return nil, err
	}
	addresses, err := parseAddresses(v.Addresses)
	if err != nil {
		return nil, err
	}
	peerAddresses, err := parseAddresses(v.PeerAddresses)
	if err != nil {
		return nil, err
	}
	near, h, err := k.at(v.NS)
	if err != nil {
		return nil, err
	}
	far, peerH, err := k.at(v.PeerNS)
	if err != nil {
		return nil, err
	}
	index := 0
	if err := k.withIndex(near, h, v.Master, func(master int) (err error) {
		index, err = h.AddVeth(link.Veth{
			Name: v.Name, MAC: mac, MTU: v.MTU, Master: master,
			PeerName: v.PeerName, PeerMAC: peerMAC, PeerNS: far.file,
		})
		return err
	}); err != nil {
		return nil, err
	}
	k.remember(near, v.Name, index)
	undo := func() error { return k.removeLink(near, index, v.Name, far) }
	configure := func() error {
		peer, err := peerH.ByName(v.PeerName)
		if err != nil {
			return err
		}
		k.remember(far, v.PeerName, peer.Index)
		if err := peerH.SetUp(peer.Index, true); err != nil {
			return err
		}
		if err := addAddresses(h, index, addresses); err != nil {
			return err
		}
		return addAddresses(peerH, peer.Index, peerAddresses)
	}
	if err := configure(); err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

// Apply makes the link in its namespace.
func (m Macvlan) Apply(k *Kernel) (func() error, error) {
	mac, err := parseMAC(m.MAC)
	if err != nil {
		return nil, err
	}
	addresses, err := parseAddresses(m.Addresses)
	if err != nil {
		return nil, err
	}
	s, h, err := k.at(m.NS)
	if err != nil {
		return nil, err
	}
	below, lowerH, err := k.at(m.LowerNS)
	if err != nil {
		return nil, err
	}
	if err := k.withIndex(below, lowerH, m.Lower, func(lower int) error {
		return lowerH.AddMacvlan(link.Macvlan{Name: m.Name, NS: s.file, Lower: lower, Mode: m.Mode, MAC: mac, MTU: m.MTU})
	}); err != nil {
		return nil, err
	}
	l, err := h.ByName(m.Name)
	if err != nil {
		return nil, err
	}
	k.remember(s, m.Name, l.Index)
	undo := func() error { return k.removeLink(s, l.Index, m.Name, nil) }
	if err := addAddresses(h, l.Index, addresses); err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

// Apply sets what the step gives, and remembers what was there.
func (l Link) Apply(k *Kernel) (func() error, error) {
	mac, err := parseMAC(l.MAC)
	if err != nil {
		return nil, err
	}
	addresses, err := parseAddresses(l.Addresses)
	if err != nil {
		return nil, err
	}
	s, h, err := k.at(l.NS)
	if err != nil {
		return nil, err
	}
	was, err := h.ByName(l.Name)
	if err != nil {
		return nil, err
	}
	var undos []func(*link.Handle) error
	undo := func() error {
		if at, _ := k.gone(s); !at.IsZero() {
			return nil
		}
		h, err := k.handle(s)
		if err != nil {
			return err
		}
		var errs []error
		for _, undo := range slices.Backward(undos) {
			if err := undo(h); err != nil && !errors.Is(err, link.ErrNotFound) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
	configure := func() error {
		if mac != nil && mac.String() != was.MAC.String() {
			if err := h.SetMAC(was.Index, mac); err != nil {
				return err
			}
			undos = append(undos, func(h *link.Handle) error { return h.SetMAC(was.Index, was.MAC) })
		}
		if l.MTU != 0 && l.MTU != was.MTU {
			if err := h.SetMTU(was.Index, l.MTU); err != nil {
				return err
			}
			undos = append(undos, func(h *link.Handle) error { return h.SetMTU(was.Index, was.MTU) })
		}
		if l.Up && !was.Up {
			ours := false // the address that the kernel gives the loopback
			if was.Index == loopback {
				had, err := h.Addresses(loopback)
				if err != nil {
					return err
				}
				ours = !slices.Contains(had, loopbackAddress())
			}
			if err := h.SetUp(was.Index, true); err != nil {
				return err
			}
			undos = append(undos, func(h *link.Handle) error {
				err := h.SetUp(was.Index, false)
				if err == nil && ours {
					err = h.DeleteAddress(loopback, loopbackAddress())
				}
				return err
			})
		}
		for _, a := range addresses {
			if err := h.AddAddress(was.Index, a); errors.Is(err, link.ErrExists) {
				continue // it was not us, so it is not ours to remove
			} else if err != nil {
				return err
			}
			undos = append(undos, func(h *link.Handle) error { return h.DeleteAddress(was.Index, a) })
		}
		return nil
	}
	if err := configure(); err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

// Apply adds the route.
func (r Route) Apply(k *Kernel) (func() error, error) {
	s, h, err := k.at(r.NS)
	if err != nil {
		return nil, err
	}
	route, err := r.parse()
	if err != nil {
		return nil, err
	}
	if err := k.withIndex(s, h, r.Dev, func(index int) error {
		route.Link = index
		return h.AddRoute(route)
	}); err != nil {
		return nil, err
	}
	return func() error {
		if at, _ := k.gone(s); !at.IsZero() {
			return nil
		}
		h, err := k.handle(s)
		if err != nil {
			return err
		}
		if err := h.DeleteRoute(route); err != nil && !errors.Is(err, link.ErrNotFound) {
			return err
		}
		return nil
	}, nil
}

// parse turns the text of the step into a route, without its link.
func (r Route) parse() (link.Route, error) {
	to, err := netip.ParsePrefix(r.To)
	if err != nil {
		return link.Route{}, fmt.Errorf("route to %q: %w", r.To, err)
	}
	route := link.Route{To: to.Masked()}
	if r.Via != "" {
		if route.Via, err = netip.ParseAddr(r.Via); err != nil {
			return link.Route{}, fmt.Errorf("route via %q: %w", r.Via, err)
		}
	}
	if r.Via == "" && r.Dev == "" {
		return link.Route{}, fmt.Errorf("route to %q has neither a gateway (via) nor a link (dev)", r.To)
	}
	return route, nil
}

// Apply sets the variable and remembers the value it had.
func (s Sysctl) Apply(k *Kernel) (func() error, error) {
	space, err := k.space(s.NS)
	if err != nil {
		return nil, err
	}
	var was string
	err = k.Do(s.NS, func() (err error) {
		was, err = sysctl.Change(s.Key, s.Value)
		return err
	})
	missing := errors.Is(err, fs.ErrNotExist) && s.IfPresent
	if err != nil && !missing {
		return nil, err
	}
	changed := !missing && was != sysctl.Normal(s.Value)
	return func() error {
		if at, _ := k.gone(space); !changed || !at.IsZero() {
			return nil
		}
		err := k.Do(s.NS, func() error { return sysctl.Write(s.Key, was) })
		if errors.Is(err, fs.ErrNotExist) { // a variable of a link that is gone
			return nil
		}
		return err
	}, nil
}

// Check says, without changing it, whether this kernel has the variable.
func (s Sysctl) Check() error {
	_, err := sysctl.Read(s.Key)
	if errors.Is(err, fs.ErrNotExist) {
		return &linux.UnsupportedError{What: "set " + s.Key, Missing: "sysctl " + s.Key, Hint: "load the kernel's module for it, or use a kernel that has it", Err: err}
	}
	return err
}

// Apply makes the table.
func (n NAT) Apply(k *Kernel) (func() error, error) {
	t, err := n.table()
	if err != nil {
		return nil, err
	}
	s, err := k.space(n.NS)
	if err != nil {
		return nil, err
	}
	if err := k.Do(n.NS, func() error { return nft.Add(t) }); err != nil {
		return nil, err
	}
	return func() error {
		if at, _ := k.gone(s); !at.IsZero() {
			return nil
		}
		if err := k.Do(n.NS, func() error { return nft.Delete(n.Table) }); err != nil && !errors.Is(err, nft.ErrNotFound) {
			return err
		}
		return nil
	}, nil
}

// Where chains of translation stand among those of others, and what their maps are called.
const (
	priorityDNAT = -100 // NF_IP_PRI_NAT_DST, include/uapi/linux/netfilter_ipv4.h
	prioritySNAT = 100  // NF_IP_PRI_NAT_SRC
	ports4       = "ports4"
	ports6       = "ports6"
)

// table is the step as nftables has it: for each family a map from ports to addresses, which two rules (UDP, TCP) look into, and a rule
// for each range of sources.
func (n NAT) table() (nft.Table, error) {
	four, six := nft.Map{Name: ports4}, nft.Map{Name: ports6, IPv6: true}
	for _, p := range n.Published {
		for _, text := range p.To {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return nft.Table{}, fmt.Errorf("publish ports %d-%d at %q: %w", p.First, p.Last, text, err)
			}
			m := &four
			if a.Is6() {
				m = &six
			}
			m.Entries = append(m.Entries, nft.Entry{First: p.First, Last: p.Last, To: a})
		}
	}
	in := nft.Chain{Name: "prerouting", Type: "nat", Hook: "prerouting", Priority: priorityDNAT}
	out := nft.Chain{Name: "postrouting", Type: "nat", Hook: "postrouting", Priority: prioritySNAT}
	behind := map[bool]netip.Addr{} // by whether it is of IPv6
	for _, text := range n.Public {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nft.Table{}, fmt.Errorf("public address %q: %w", text, err)
		}
		if other, ok := behind[a.Is6()]; ok {
			return nft.Table{}, fmt.Errorf("public address %q: %s is of the same family", text, other)
		}
		behind[a.Is6()] = a
		m := ports4
		if a.Is6() {
			m = ports6
		}
		for _, protocol := range []string{"udp", "tcp"} {
			in.Rules = append(in.Rules, nft.Rule{Destination: netip.PrefixFrom(a, a.BitLen()), Protocol: protocol, DNAT: m})
		}
	}
	for _, text := range n.Sources {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nft.Table{}, fmt.Errorf("sources %q: %w", text, err)
		}
		a, ok := behind[p.Addr().Is6()]
		if !ok {
			return nft.Table{}, fmt.Errorf("sources %q: there is no public address of the family", text)
		}
		out.Rules = append(out.Rules, nft.Rule{Source: p, SNAT: a})
	}
	return nft.Table{Name: n.Table, Maps: []nft.Map{four, six}, Chains: []nft.Chain{in, out}}, nil
}

// at opens a namespace and its netlink socket.
func (k *Kernel) at(ns string) (*space, *link.Handle, error) {
	s, err := k.space(ns)
	if err != nil {
		return nil, nil, err
	}
	h, err := k.handle(s)
	if err != nil {
		return nil, nil, err
	}
	return s, h, nil
}

// The kernel removes the links of a namespace in the background after its last reference is gone, many namespaces at
// once: 300 in 0.6 s at worst. A link is waited for as long, and then removed by hand: a socket still
// holds its namespace.
const (
	patience    = 300 * time.Millisecond
	patienceFor = 3 * time.Millisecond // each namespace
	pollPause   = 2 * time.Millisecond
)

// removeLink removes a link that a step had made in s. far is where its other end is, nil for none: if that
// namespace was removed the link goes with it, and is only waited for.
func (k *Kernel) removeLink(s *space, index int, name string, far *space) error {
	if at, _ := k.gone(s); !at.IsZero() {
		return nil
	}
	k.forget(s, name)
	h, err := k.handle(s)
	if err != nil {
		return err
	}
	var deadline time.Time
	if far != nil {
		if at, ended := k.gone(far); !at.IsZero() {
			deadline = at.Add(patience + time.Duration(ended)*patienceFor)
		}
	}
	for {
		l, err := h.ByIndex(index)
		if errors.Is(err, link.ErrNotFound) || err == nil && l.Name != name {
			return nil
		}
		if err != nil {
			return err
		}
		if !time.Now().Before(deadline) {
			break
		}
		time.Sleep(pollPause)
	}
	if err := h.Delete(index); err != nil && !errors.Is(err, link.ErrNotFound) {
		return err
	}
	return nil
}

// withIndex calls f with the index of the link of this name, 0 for the name "". It spares the question for a link that a step has made:
// if f fails with the index remembered, the name may be another link's by now, so that the kernel is asked and f called again. A
// call that fails leaves nothing behind.
func (k *Kernel) withIndex(s *space, h *link.Handle, name string, f func(index int) error) error {
	if name == "" {
		return f(0)
	}
	if index, ok := k.remembered(s, name); ok && f(index) == nil {
		return nil
	}
	l, err := h.ByName(name)
	if err != nil {
		return err
	}
	return f(l.Index)
}

func addAddresses(h *link.Handle, index int, addresses []netip.Prefix) error {
	for _, a := range addresses {
		if err := h.AddAddress(index, a); err != nil {
			return err
		}
	}
	return nil
}

func parseMAC(s string) (net.HardwareAddr, error) {
	if s == "" {
		return nil, nil
	}
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 {
		return nil, fmt.Errorf("%q is no MAC address (like \"02:00:00:00:00:01\")", s)
	}
	return mac, nil
}

func parseAddresses(list []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%q is no address with a prefix length (like \"10.1.0.1/16\")", s)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}
