package lxc

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// A Link is the link of a container, which LXC makes with the container. Its types are those of lxc.container.conf(5),
// NETWORK. Its step comes after those of all containers: it waits until the container can use its addresses.
type Link runtime.Link

// linkOf reads what nettoll would have made.
func linkOf(j runtime.Joint) (Link, error) {
	l, err := j.LinkBy("LXC", runtime.TypeVeth, runtime.TypeMacvlan, runtime.TypeIPvlan, runtime.TypePhysical)
	return Link(l), err
}

// Kind returns "lxc-link".
func (Link) Kind() string { return "lxc-link" }

// String describes the step in plain words.
func (l Link) String() string { return runtime.Link(l).Described("LXC") }

// config returns the settings that have LXC make the link. Gateways are as in [runtime.Joint].
func (l Link) config(gateways []string) (list []setting) {
	add := func(key, value string) { list = append(list, setting{"net.0." + key, value}) }
	add("type", l.Type)
	add("flags", "up")
	add("name", l.Name)
	switch l.Type {
	case runtime.TypeVeth:
		add("veth.pair", l.Lower)
		add("link", l.Master)
	case runtime.TypeMacvlan, runtime.TypeIPvlan:
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

// Apply waits until the container can use the addresses.
func (l Link) Apply(ctx context.Context, k *host.Kernel) error { return runtime.Link(l).Wait(ctx, k) }

// Remove does nothing: the link goes with its container.
func (Link) Remove(context.Context, *host.Kernel) error { return nil }

// Verify compares the link with what nettoll would have made.
func (l Link) Verify(k *host.Kernel) error { return runtime.Link(l).Agrees(k, l) }
