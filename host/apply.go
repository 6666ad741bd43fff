package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

// UndoneFirst makes Namespace a [FirstUndone].
func (Namespace) UndoneFirst() {}

// Apply makes the namespace and sets its loopback link up.
func (n Namespace) Apply(ctx context.Context, k *Kernel) error {
	s, err := k.make(n.Name)
	if err != nil {
		return err
	}
	h, err := k.handle(s)
	if err == nil {
		err = h.SetUp(loopback, true)
	}
	if err != nil {
		return errors.Join(err, n.Remove(ctx, k))
	}
	return nil
}

// Adopt gives the host, instead of a new namespace, one that somebody else has made. Like a new one it has IPv6, which
// Docker disables until a network of its own has it (moby, libnetwork/osl/namespace_linux.go). The caller closes the
// file.
func (n Namespace) Adopt(k *Kernel, ns *os.File) error {
	if err := n.Show(k, ns); err != nil {
		return err
	}
	err := k.Do(n.Name, func() error {
		return sysctl.Write("net.ipv6.conf.all.disable_ipv6", "0") // and of all links, also later ones
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // this kernel has no IPv6
	}
	if err != nil {
		err = errors.Join(err, k.remove(n.Name))
	}
	return err
}

// Show gives the host a namespace that somebody else has made and goes on to use, as it is. The caller closes the file.
func (n Namespace) Show(k *Kernel, ns *os.File) error {
	_, err := k.bind(n.Name, func(s *space) (err error) {
		s.file, err = netns.Open(fmt.Sprintf("/proc/self/fd/%d", ns.Fd()))
		return err
	})
	return err
}

// Remove unmounts the namespace from its directory. It ends when no process has it open any more.
func (n Namespace) Remove(_ context.Context, k *Kernel) error { return k.remove(n.Name) }

// loopback is the index of lo in every namespace: lo is the first link registered there (LOOPBACK_IFINDEX,
// include/net/flow.h).
const loopback = 1

// loopbackAddress is the address that the kernel gives lo when it is set up for the first time. The kernel leaves it
// there when lo is set down (net/ipv4/devinet.c, inetdev_event).
func loopbackAddress() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 8)
}

// Made is kept by steps that make a link: the link's index, which distinguishes it from another link of the same name.
type Made struct {
	Index int `json:"index"`
}

// Remove removes the link of that name in a namespace, if it is still there. Far is the namespace of its other end, ""
// if there is none or if it is the host's own. If that namespace was removed, the kernel removes the link with it, and
// Remove waits for that.
func (m Made) Remove(ctx context.Context, k *Kernel, ns, name, far string) error {
	return k.removeLink(ctx, ns, m.Index, name, far)
}

// keepLink keeps a link that a step has made, and then calls configure. If that fails, it removes the link.
func (k *Kernel) keepLink(ctx context.Context, s *space, index int, name string, configure func() error) error {
	k.remember(s, name, index)
	err := k.Keep(Made{index})
	if err == nil {
		err = configure()
	}
	if err != nil {
		return errors.Join(err, k.removeLink(ctx, s.ref, index, name, ""))
	}
	return nil
}

// removeMade removes the link that a step has made, see [Made.Remove].
func (k *Kernel) removeMade(ctx context.Context, ns, name, far string) error {
	var made Made
	if ok, err := k.Kept(&made); !ok {
		return err
	}
	return made.Remove(ctx, k, ns, name, far)
}

// Apply makes the bridge.
func (b Bridge) Apply(ctx context.Context, k *Kernel) error {
	mac, err := parseMAC(b.MAC)
	if err != nil {
		return err
	}
	addresses, err := parseAddresses(b.Addresses)
	if err != nil {
		return err
	}
	s, h, err := k.inside(b.NS)
	if err != nil {
		return err
	}
	index, err := h.AddBridge(link.Bridge{Name: b.Name, MAC: mac, MTU: b.MTU, Snooping: b.Snooping})
	if err != nil {
		return err
	}
	return k.keepLink(ctx, s, index, b.Name, func() error { return addAddresses(h, index, addresses) })
}

// Remove removes the bridge.
func (b Bridge) Remove(ctx context.Context, k *Kernel) error {
	return k.removeMade(ctx, b.NS, b.Name, "")
}

// Apply makes both ends, each in its own namespace.
func (v Veth) Apply(ctx context.Context, k *Kernel) error {
	mac, err := parseMAC(v.MAC)
	if err != nil {
		return err
	}
	peerMAC, err := parseMAC(v.PeerMAC)
	if err != nil {
		return err
	}
	addresses, err := parseAddresses(v.Addresses)
	if err != nil {
		return err
	}
	peerAddresses, err := parseAddresses(v.PeerAddresses)
	if err != nil {
		return err
	}
	near, h, err := k.inside(v.NS)
	if err != nil {
		return err
	}
	far, peerH, err := k.inside(v.PeerNS)
	if err != nil {
		return err
	}
	index := 0
	if err := k.withIndex(near, h, v.Master, func(master int) (err error) {
		index, err = h.AddVeth(link.Veth{
			Name: v.Name, MAC: mac, MTU: v.MTU, Master: master,
			PeerName: v.PeerName, PeerMAC: peerMAC, PeerNS: far.file,
		})
		return err
	}); err != nil {
		return err
	}
	return k.keepLink(ctx, near, index, v.Name, func() error {
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
	})
}

// Remove removes both ends.
func (v Veth) Remove(ctx context.Context, k *Kernel) error {
	return k.removeMade(ctx, v.NS, v.Name, v.PeerNS)
}

// linkWas holds the former settings of a link that a [Link] changed, and what the Link added.
type linkWas struct {
	Index int    `json:"index"`
	MAC   string `json:"mac,omitempty"`
	MTU   int    `json:"mtu,omitempty"`
	// Down is true if the link was down.
	Down bool `json:"down,omitempty"`
	// Added are the addresses that the link did not have, including the one that the kernel gives the loopback.
	Added []netip.Prefix `json:"added,omitempty"`
}

// Apply makes the step's settings, and keeps the former ones.
func (l Link) Apply(_ context.Context, k *Kernel) error {
	mac, err := parseMAC(l.MAC)
	if err != nil {
		return err
	}
	addresses, err := parseAddresses(l.Addresses)
	if err != nil {
		return err
	}
	_, h, err := k.inside(l.NS)
	if err != nil {
		return err
	}
	found, err := h.ByName(l.Name)
	if err != nil {
		return err
	}
	was := linkWas{Index: found.Index}
	configure := func() error {
		if mac != nil && mac.String() != found.MAC.String() {
			if err := h.SetMAC(found.Index, mac); err != nil {
				return err
			}
			was.MAC = found.MAC.String()
		}
		if l.MTU != 0 && l.MTU != found.MTU {
			if err := h.SetMTU(found.Index, l.MTU); err != nil {
				return err
			}
			was.MTU = found.MTU
		}
		if l.Up && !found.Up {
			if found.Index == loopback {
				had, err := h.Addresses(loopback)
				if err != nil {
					return err
				}
				if !slices.Contains(had, loopbackAddress()) {
					was.Added = append(was.Added, loopbackAddress())
				}
			}
			if err := h.SetUp(found.Index, true); err != nil {
				return err
			}
			was.Down = true
		}
		for _, a := range addresses {
			if err := h.AddAddress(found.Index, a); errors.Is(err, link.ErrExists) {
				continue // the step did not add it, so it must not remove it
			} else if err != nil {
				return err
			}
			was.Added = append(was.Added, a)
		}
		return k.Keep(was)
	}
	if err := configure(); err != nil {
		return errors.Join(err, was.restore(h))
	}
	return nil
}

// Remove restores the former settings.
func (l Link) Remove(_ context.Context, k *Kernel) error {
	var was linkWas
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	_, h, stands, err := k.standing(l.NS)
	if !stands {
		return err
	}
	if now, err := h.ByIndex(was.Index); errors.Is(err, link.ErrNotFound) || err == nil && now.Name != l.Name {
		return nil // the link is gone, and another link has its index
	} else if err != nil {
		return err
	}
	return was.restore(h)
}

// restore restores the former settings, in the reverse order of the changes.
func (w linkWas) restore(h *link.Handle) error {
	var errs []error
	try := func(err error) {
		if err != nil && !errors.Is(err, link.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	remove := func(ours bool) {
		for _, a := range slices.Backward(w.Added) {
			if (w.Index == loopback && a == loopbackAddress()) == ours {
				try(h.DeleteAddress(w.Index, a))
			}
		}
	}
	remove(false)
	if w.Down {
		try(h.SetUp(w.Index, false))
	}
	remove(true) // the kernel adds it again to a loopback that is up
	if w.MTU != 0 {
		try(h.SetMTU(w.Index, w.MTU))
	}
	if w.MAC != "" {
		mac, err := parseMAC(w.MAC)
		if err == nil {
			err = h.SetMAC(w.Index, mac)
		}
		try(err)
	}
	return errors.Join(errs...)
}

// Apply adds the route.
func (r Route) Apply(_ context.Context, k *Kernel) error {
	s, h, err := k.inside(r.NS)
	if err != nil {
		return err
	}
	route, err := r.parse()
	if err != nil {
		return err
	}
	return k.withIndex(s, h, r.Dev, func(index int) error {
		route.Link = index
		return h.AddRoute(route)
	})
}

// Remove deletes the route. If the link is gone, so is the route.
func (r Route) Remove(_ context.Context, k *Kernel) error {
	route, err := r.parse()
	if err != nil {
		return err
	}
	s, h, stands, err := k.standing(r.NS)
	if !stands {
		return err
	}
	err = k.withIndex(s, h, r.Dev, func(index int) error {
		route.Link = index
		return h.DeleteRoute(route)
	})
	if errors.Is(err, link.ErrNotFound) {
		return nil
	}
	return err
}

// parse converts the text of the step into a route, without its link.
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
	if route.Encap, err = r.Encap.Parse(); err != nil {
		return link.Route{}, fmt.Errorf("route to %q: %w", r.To, err)
	}
	return route, nil
}

// Parse converts the text into addresses.
func (e Encap) Parse() (link.Encap, error) {
	if e == (Encap{}) {
		return link.Encap{}, nil
	}
	local, err := netip.ParseAddr(e.Local)
	if err != nil {
		return link.Encap{}, fmt.Errorf("encap from %q: %w", e.Local, err)
	}
	remote, err := netip.ParseAddr(e.Remote)
	if err != nil {
		return link.Encap{}, fmt.Errorf("encap to %q: %w", e.Remote, err)
	}
	return link.Encap{ID: uint64(e.ID), Local: local, Remote: remote, Checksum: e.Checksum, TTL: link.TTL}, nil
}

// sysctlWas says that a [Sysctl] found its variable.
type sysctlWas struct {
	Value string `json:"value,omitempty"` // the former value; "" if the step did not change it
}

// Apply sets the variable and keeps its former value.
func (s Sysctl) Apply(_ context.Context, k *Kernel) error {
	var was string
	err := k.Do(s.NS, func() (err error) {
		was, err = sysctl.Change(s.Key, s.Value)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) && s.IfPresent {
		if _, known := k.space(s.NS); known != nil { // the namespace is missing, not the variable
			return known
		}
		return nil
	}
	if err != nil {
		return err
	}
	if was == sysctl.Normal(s.Value) {
		was = ""
	}
	return k.Keep(sysctlWas{was})
}

// Remove restores the former value of the variable.
func (s Sysctl) Remove(_ context.Context, k *Kernel) error {
	var was sysctlWas
	if _, err := k.Kept(&was); err != nil || was.Value == "" {
		return err
	}
	if gone, err := k.Gone(s.NS); gone || err != nil {
		return err
	}
	err := k.Do(s.NS, func() error { return sysctl.Write(s.Key, was.Value) })
	if errors.Is(err, fs.ErrNotExist) { // a variable of a link that is gone
		return nil
	}
	return err
}

// Check returns an error if this kernel does not have the variable. It changes nothing.
func (s Sysctl) Check() error {
	_, err := sysctl.Read(s.Key)
	if errors.Is(err, fs.ErrNotExist) {
		return &linux.UnsupportedError{
			What: "set " + s.Key, Missing: "sysctl " + s.Key,
			Hint: "load the kernel's module for it, or use a kernel that has it", Err: err,
		}
	}
	return err
}

// inside opens a namespace and its netlink socket.
func (k *Kernel) inside(ns string) (*space, *link.Handle, error) {
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

// The kernel removes the links of a namespace in the background after its last reference is gone, for many namespaces
// at once: 300 take at most 0.6 s. removeLink waits that long for a link, and then removes it itself, because a socket
// still holds the namespace.
const (
	patience    = 300 * time.Millisecond
	patienceFor = 3 * time.Millisecond // for each namespace
	pollPause   = 2 * time.Millisecond
)

// removeLink removes a link that a step has made in ns. far is the namespace of its other end, "" for none. If this
// process has removed that namespace, the kernel removes the link with it, and removeLink only waits.
func (k *Kernel) removeLink(ctx context.Context, ns string, index int, name, far string) error {
	s, h, stands, err := k.standing(ns)
	if !stands {
		return err
	}
	k.forget(s, name)
	var deadline time.Time
	if at, all := k.removed(far); !at.IsZero() {
		deadline = at.Add(patience + time.Duration(all)*patienceFor)
	}
	for {
		l, err := h.ByIndex(index)
		if errors.Is(err, link.ErrNotFound) || err == nil && l.Name != name {
			return nil
		}
		if err != nil {
			return err
		}
		if !time.Now().Before(deadline) || ctx.Err() != nil {
			break
		}
		time.Sleep(pollPause)
	}
	if err := h.Delete(index); err != nil && !errors.Is(err, link.ErrNotFound) {
		return err
	}
	return nil
}

// withIndex calls f with the index of the link of this name; 0 for the name "". For a link that a step has made, it
// uses the remembered index, which saves a request. If f fails with that index, the name may belong to another link by
// now; withIndex then asks the kernel and calls f again. A failed f must leave nothing behind.
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
		return nil, fmt.Errorf("invalid MAC address %q (valid: such as 02:00:00:00:00:01)", s)
	}
	return mac, nil
}

func parseAddresses(list []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("invalid address %q (valid: an address with a prefix length, such as 10.1.0.1/16)", s)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}
