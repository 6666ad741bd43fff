package watch

import (
	"errors"

	"golang.org/x/sys/unix"
)

// happened reads the monitors.
func (n *Namespace) happened() (lost bool, err error) {
	for _, one := range []struct {
		c *conn
		f func(message)
	}{{n.monitor, n.event}, {n.rules, n.logged(nftables)}, {n.security, n.securityEvent}} {
		if one.c == nil {
			continue
		}
		err := one.c.pending(one.f)
		if err != nil && !errors.Is(err, errLost) {
			return false, err
		}
		lost = lost || err != nil
	}
	return lost, nil
}

func (n *Namespace) logged(read func(message) (what, value string, removed, ok bool)) func(message) {
	return func(m message) {
		if what, value, removed, ok := read(m); ok {
			n.log.note(what, value, removed)
		}
	}
}

// event notes what a message of the monitor reports.
func (n *Namespace) event(m message) {
	switch m.kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		n.linkEvent(m)
	case unix.RTM_NEWADDR:
		n.addresses.added(n.names, m.data)
	case unix.RTM_DELADDR:
		n.addresses.removed(n.names, m.data)
	case unix.RTM_NEWROUTE:
		t, value := n.names.route(m.data)
		if n.names.follows(m.data, n.addresses.base) && n.routes.is(t) == "" {
			n.routes.base.put(t, value)
			return
		}
		n.routes.note(t, value)
	case unix.RTM_DELROUTE:
		n.routes.removed(n.names, m.data)
	case unix.RTM_NEWRULE:
		n.policy.added(n.names, m.data)
	case unix.RTM_DELRULE:
		n.policy.removed(n.names, m.data)
	case unix.RTM_NEWNEIGH:
		t, value := n.names.neighbour(m.data)
		n.neighbourEvent(t, value)
	case unix.RTM_DELNEIGH:
		t, _ := n.names.neighbour(m.data)
		n.neighbourEvent(t, "")
	case unix.RTM_NEWNEXTHOP:
		n.hops.added(n.names, m.data)
	case unix.RTM_DELNEXTHOP:
		n.hops.removed(n.names, m.data)
	case unix.RTM_NEWVLAN:
		n.vlans.added(n.names, m.data)
	case unix.RTM_DELVLAN:
		n.vlans.removed(n.names, m.data)
	case unix.RTM_NEWMDB:
		n.multicast.added(n.names, m.data)
	case unix.RTM_DELMDB:
		n.multicast.removed(n.names, m.data)
	case unix.RTM_NEWNETCONF:
		n.variableEvent(m.data)
	default:
		n.traffic.dirty = true
		n.logged(n.discipline)(m)
	}
}

func (n *Namespace) securityEvent(m message) {
	n.secured.dirty = true
	n.logged(n.xfrm)(m)
}

// neighbourEvent notes a neighbour, and learns one that was not known.
func (n *Namespace) neighbourEvent(t thing, value string) {
	if t == (thing{}) {
		return
	}
	was := n.near.is(t)
	switch {
	case was == value:
	case !learned(was, value):
		n.near.note(t, value)
	case value != "":
		n.near.base[t] = value
	}
}

// linkEvent notes what a link has become.
func (n *Namespace) linkEvent(m message) {
	if len(m.data) == 0 || m.data[0] == unix.AF_BRIDGE {
		n.links.dirty = true // the same link tells it, too
		return
	}
	is := state{}
	n.names.link(is, m.data)
	for t, value := range is {
		if m.kind == unix.RTM_DELLINK {
			value = ""
		}
		if value != "" || t.of == t.what {
			n.links.note(t, value)
		}
		if t.of != t.what || m.kind == unix.RTM_DELLINK {
			continue
		}
		for other := range n.links.base { // what it does not have any more
			if other.of == t.of && is[other] == "" {
				n.links.note(other, "")
			}
		}
	}
}

// Attributes of RTM_NEWNETCONF (NETCONFA_…, include/uapi/linux/netconf.h).
const (
	netconfIndex      = 1
	netconfForwarding = 2
	netconfRPFilter   = 3
	netconfMulticast  = 4
	netconfProxy      = 5
)

// variableEvent notes what a variable of a link, of all or of new ones has become.
func (n *Namespace) variableEvent(m []byte) {
	rest := from(m, 4) // struct netconfmsg, padded
	if rest == nil {
		return
	}
	six := 0
	if m[0] == unix.AF_INET6 {
		six = 1
	}
	v := families()[six]
	index := int(int32(u32(attribute(rest, netconfIndex))))
	for kind, data := range attributes(rest) {
		// the number of the variable of a link, of IPv4 and IPv6
		at, ok := map[uint16][2]int{
			netconfForwarding: {1, 0}, netconfRPFilter: {8, -1}, netconfMulticast: {2, 25}, netconfProxy: {3, 22},
		}[kind]
		if !ok || at[six] < 0 {
			continue
		}
		if index < 0 { // NETCONFA_IFINDEX_ALL, NETCONFA_IFINDEX_DEFAULT
			of := map[int]string{-1: "all", -2: "default"}[index]
			n.told(v.prefix+of+"."+v.names[at[six]], number(data))
			continue
		}
		t := v.thing(n.names.of(index))
		if is := n.links.is(t); is != "" {
			n.links.note(t, set(is, at[six]-v.first, u32(data)))
		}
	}
}

// told notes that a variable of the namespace had a value since the last audit.
func (n *Namespace) told(key, value string) {
	for i := range n.variables {
		v := &n.variables[i]
		if v.key != key || v.value() == value {
			continue
		}
		if n.varied == nil {
			n.varied, n.before = trail{}, state{}
		}
		n.varied[v.thing()], n.before[v.thing()] = append(n.varied[v.thing()], value), v.value()
	}
}
