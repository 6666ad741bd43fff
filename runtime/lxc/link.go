package lxc

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// Types of links, as LXC names them (lxc.container.conf(5), NETWORK).
const (
	isVeth    = "veth"
	isMacvlan = "macvlan"
	isIPvlan  = "ipvlan"
	isPhys    = "phys"
)

// A Link is the link of a container, which LXC makes with the container. Its step comes after those of all containers: it
// waits until the container can use its addresses. LXC has the kernel look for duplicates of IPv6 addresses, which takes
// one to two seconds (RFC 4862, 5.4).
type Link struct {
	// Type is "veth", "macvlan", "ipvlan" or "phys".
	Type string `json:"type"`
	// Upper is the link in the container. Lower is the link of the host that it is above, or the other end of a veth, or the
	// name of a physical link on the host.
	host.Upper
	// Master is the bridge of the other end of a veth.
	Master string `json:"master,omitempty"`
}

// linkOf reads what nettoll would have made.
func linkOf(j runtime.Joint) (Link, error) {
	switch s := j.Link.(type) {
	case host.Veth:
		return Link{Type: isVeth, Master: s.Master, Upper: host.Upper{
			NS: s.PeerNS, Name: s.PeerName, Lower: s.Name, MAC: s.PeerMAC, MTU: s.MTU, Addresses: s.PeerAddresses,
		}}, nil
	case host.MoveLink:
		if s.FromNS == "" {
			return Link{Type: isPhys, Upper: host.Upper{
				NS: s.NS, Name: s.Name, Lower: s.From, MTU: s.MTU, Addresses: s.Addresses,
			}}, nil
		}
	case runtime.Based:
		if kind := s.Kind(); kind == isMacvlan || kind == isIPvlan {
			return Link{Type: kind, Upper: s.Base()}, nil
		}
	}
	return Link{}, fmt.Errorf("LXC does not make the link of container %s: %s", j.Container.Name, j.Link)
}

// Kind returns "lxc-link".
func (Link) Kind() string { return "lxc-link" }

// String describes the step in plain words.
func (l Link) String() string {
	s := fmt.Sprintf("%s of LXC, %s", l.Type, l.Upper)
	if l.Master != "" {
		s += ", at bridge " + l.Master
	}
	return s
}

// config returns the settings that have LXC make the link. Gateways are as in [runtime.Joint].
func (l Link) config(gateways []string) (list []setting) {
	add := func(key, value string) { list = append(list, setting{"net.0." + key, value}) }
	add("type", l.Type)
	add("flags", "up")
	add("name", l.Name)
	switch l.Type {
	case isVeth:
		add("veth.pair", l.Lower)
		add("link", l.Master)
	case isMacvlan, isIPvlan:
		add(l.Type+".mode", l.Mode)
		fallthrough
	default:
		add("link", l.Lower)
	}
	if l.MAC != "" {
		add("hwaddr", l.MAC)
	}
	if l.MTU != 0 {
		add("mtu", strconv.Itoa(l.MTU))
	}
	for _, a := range l.Addresses {
		add(family(a)+".address", a)
		if i := slices.IndexFunc(gateways, func(via string) bool { return via == "" || family(via) == family(a) }); i >= 0 {
			add(family(a)+".gateway", cmp.Or(gateways[i], "dev"))
		}
	}
	return list
}

// family is that of an address, with or without the length of its prefix, as LXC names it.
func family(address string) string {
	if strings.Contains(address, ":") {
		return "ipv6"
	}
	return "ipv4"
}

const (
	// unique is how long the kernel may look for duplicates of an address, with the pauses before and after.
	unique = 4 * time.Second
	// pause is the time between two looks.
	pause = 5 * time.Millisecond
)

// Apply waits until the container can use the addresses.
func (l Link) Apply(ctx context.Context, k *host.Kernel) error {
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

// Remove does nothing: the link goes with its container.
func (Link) Remove(context.Context, *host.Kernel) error { return nil }

// Verify compares the link with what nettoll would have made. LXC chooses the MAC address of the host's end of a veth.
func (l Link) Verify(k *host.Kernel) error {
	switch l.Type {
	case isVeth:
		return host.Veth{
			Name: l.Lower, MTU: l.MTU, Master: l.Master, PeerNS: l.NS, PeerName: l.Name, PeerMAC: l.MAC,
			PeerAddresses: l.Addresses,
		}.Verify(k)
	case isPhys:
		return host.MoveLink{From: l.Lower, NS: l.NS, Name: l.Name, MTU: l.MTU, Addresses: l.Addresses}.Verify(k)
	}
	return l.Compare(k, l, l.Type)
}
