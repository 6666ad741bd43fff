package network

import (
	"github.com/nettoll/nettoll/host"
)

// learning is how many containers of a lab may learn where their neighbours are. The table of neighbours is one for the
// whole machine, those of all namespaces in it, and forgets what it needs from 1,024 entries on (gc_thresh3,
// net/ipv4/arp.c); permanent ones do not count. Each container has two for each family: its own, and its host's for it.
const learning = 200

// Permanent says whether the containers of the lab and their hosts have permanent entries for each other, see
// [host.Neighbour].
func (l Lab) Permanent() bool {
	n := 0
	for _, h := range l.Hosts {
		n += len(h.Containers)
	}
	return n > learning
}

// Many says whether a lab of so many pairs has more containers than may learn where their neighbours are.
func Many(pairs int) bool { return 2*pairs > learning }

// An Introducer is a network in whose labs of many containers ([Lab.Permanent]) nobody has to learn where anybody is.
type Introducer interface {
	Introduces()
}

// introduced returns the steps by which the containers of a bridge know their neighbours for good where the lab asks
// for it: each its peer and, where packets are routed, its gateway, and the host all of them.
func introduced(lab Lab, h Host, ends []Endpoint, routed bool) []host.Step {
	if !lab.Permanent() {
		return nil
	}
	name := h.Name()
	gate4, gate6 := Gateway(h.Index)
	at := func(c Container) string { return MAC(lab.Seed, name, c.Name, Inner) }
	steps := Acquainted(lab, h, ends, at)
	if !routed {
		return steps
	}
	for i, c := range h.Containers {
		steps = append(steps,
			host.Neighbour{
				NS: c.Name, Dev: Inner, Addresses: []string{gate4.Addr().String(), gate6.Addr().String()},
				At: MAC(lab.Seed, name, Bridge),
			},
			host.Neighbour{Dev: Bridge, Addresses: []string{ends[i].IPv4.String(), ends[i].IPv6.String()}, At: at(c)})
	}
	return steps
}

// Acquainted returns the steps by which containers that are neighbours of each other know their peers on the same host
// for good where the lab asks for it; mac says where a container is.
func Acquainted(lab Lab, h Host, ends []Endpoint, mac func(Container) string) []host.Step {
	if !lab.Permanent() {
		return nil
	}
	at := make(map[string]int, len(h.Containers))
	for i, c := range h.Containers {
		at[c.Name] = i
	}
	var steps []host.Step
	for i, c := range h.Containers {
		if peer, here := at[c.Peer]; here {
			steps = append(steps, host.Neighbour{
				NS: c.Name, Dev: ends[i].Inner, Addresses: []string{ends[peer].IPv4.String(), ends[peer].IPv6.String()},
				At: mac(h.Containers[peer]),
			})
		}
	}
	return steps
}
