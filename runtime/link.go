package runtime

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
)

// Types of links, as the kernel names them, and TypePhysical, as LXC names a link that is moved into a container.
const (
	TypeVeth     = "veth"
	TypeMacvlan  = "macvlan"
	TypeIPvlan   = "ipvlan"
	TypePhysical = "phys"
)

// A Link is the link of a container, which a runtime makes. The step of a runtime is of this type.
type Link struct {
	// Type is one of the types above.
	Type string `json:"type"`
	// Upper is the link in the container. Lower is the link of the host that it is above, or the other end of a veth, or
	// the name of a physical link on the host.
	host.Upper
	// Master is the bridge of the other end of a veth.
	Master string `json:"master,omitempty"`
}

// LinkBy reads what nettoll would have made. It is an error if the runtime, which by is the name of, makes no links of
// that type.
func (j Joint) LinkBy(by string, types ...string) (Link, error) {
	var l Link
	switch s := j.Link.(type) {
	case host.Veth:
		l = Link{Type: TypeVeth, Master: s.Master, Upper: host.Upper{
			NS: s.PeerNS, Name: s.PeerName, LowerNS: s.NS, Lower: s.Name, MAC: s.PeerMAC, MTU: s.MTU, Addresses: s.PeerAddresses,
		}}
	case host.MoveLink:
		if s.FromNS == "" {
			l = Link{Type: TypePhysical, Upper: host.Upper{
				NS: s.NS, Name: s.Name, Lower: s.From, MTU: s.MTU, Addresses: s.Addresses,
			}}
		}
	case Based:
		l = Link{Type: s.Kind(), Upper: s.Base()}
	}
	if !slices.Contains(types, l.Type) {
		return Link{}, fmt.Errorf("%s does not make the link of container %s: %s (it makes links of type %s)", by,
			j.Container.Name, j.Link, strings.Join(types, ", "))
	}
	return l, nil
}

// Described describes the link in plain words. By is what makes it.
func (l Link) Described(by string) string {
	s := fmt.Sprintf("%s of %s, %s", l.Type, by, l.Upper)
	if l.Master != "" {
		s += ", at bridge " + l.Master
	}
	return s
}

const (
	// unique is how long the kernel may look for duplicates of an address, with the pauses before and after.
	unique = 4 * time.Second
	// pause is the time between two looks.
	pause = 5 * time.Millisecond
)

// UniqueTime is how long [Link.Wait] usually takes. The containers of a lab wait at the same time.
const UniqueTime = 2 * time.Second

// Wait waits until the container can use its addresses. The kernel looks for duplicates of IPv6 addresses, which takes
// one to two seconds (RFC 4862, 5.4).
func (l Link) Wait(ctx context.Context, k *host.Kernel) error {
	h, err := k.Links(l.NS)
	if err != nil {
		return err
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for end := time.Now().Add(unique); ; {
		late := time.Now().After(end)
		missing := ""
		for _, a := range l.Addresses {
			at, err := netip.ParsePrefix(a)
			if err != nil {
				return fmt.Errorf("address %q: %w", a, err)
			}
			if usable, err := h.Local(at.Addr()); err != nil {
				return err
			} else if !usable {
				missing = a
			}
		}
		if missing == "" {
			return nil
		}
		if late {
			return fmt.Errorf("%s cannot be used in %s after %v", missing, l.NS, unique)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Near gives the other end of a veth, which is on the host or in another namespace of it, the name of the plan.
func (l Link) Near(k *host.Kernel) error {
	far, err := k.Links(l.NS)
	if err != nil {
		return err
	}
	inner, err := far.ByName(l.Name)
	if err != nil {
		return err
	}
	near, err := k.Links(l.LowerNS)
	if err != nil {
		return err
	}
	return near.Rename(inner.Peer, l.Lower)
}

// SetMAC gives a link that a runtime has made its MAC address.
func SetMAC(k *host.Kernel, ns, name, mac string) error {
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	h, err := k.Links(ns)
	if err != nil {
		return err
	}
	l, err := h.ByName(name)
	if err != nil {
		return err
	}
	return h.SetMAC(l.Index, hardware)
}

// Agrees compares the link with what nettoll would have made, for a step. The runtime chooses the MAC address of the
// host's end of a veth.
func (l Link) Agrees(k *host.Kernel, step host.Step) error {
	switch l.Type {
	case TypeVeth:
		return host.Veth{
			NS: l.LowerNS, Name: l.Lower, MTU: l.MTU, Master: l.Master, PeerNS: l.NS, PeerName: l.Name, PeerMAC: l.MAC,
			PeerAddresses: l.Addresses,
		}.Verify(k)
	case TypePhysical:
		return host.MoveLink{From: l.Lower, NS: l.NS, Name: l.Name, MTU: l.MTU, Addresses: l.Addresses}.Verify(k)
	}
	return l.Compare(k, step, l.Type)
}
