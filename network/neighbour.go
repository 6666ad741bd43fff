package network

import (
	"github.com/nettoll/nettoll/host"
)

// learning is how many containers of a lab may learn where their neighbours are. The table of neighbours is one for the
// whole machine, those of all namespaces in it, and forgets what it needs from 1,024 entries on (gc_thresh3,
// net/ipv4/arp.c); permanent ones do not count. Each container has two for each family: its own, and its host's for it.
const learning = 200

// StaticNeighbours reports whether the containers of the lab and their hosts have static neighbour entries for each
// other, see [host.Neighbour].
func (l Lab) StaticNeighbours() bool {
	n := 0
	for _, h := range l.Hosts {
		n += len(h.Containers)
	}
	return n > learning
}

// Many reports whether a lab with that number of pairs has too many containers for learned neighbour entries.
func Many(pairs int) bool { return 2*pairs > learning }

// StaticNeighbours is a network whose large labs ([Lab.StaticNeighbours]) have static neighbour entries, so that no
// container has to resolve an address.
type StaticNeighbours interface {
	StaticNeighbours()
}

// bridgeNeighbours returns the steps that give the containers of a bridge static neighbour entries, if the lab has
// them: each container one for its peer and, if packets are routed, one for its gateway, and the host one for each
// container.
func bridgeNeighbours(lab Lab, h Host, ends []Endpoint, routed bool) []host.Step {
	if !lab.StaticNeighbours() {
		return nil
	}
	name := h.Name()
	gate4, gate6 := Gateway(h.Index)
	at := func(c Container) string { return MAC(lab.Seed, name, c.Name, Inner) }
	steps := PeerNeighbours(lab, h, ends, at)
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

// PeerNeighbours returns the steps that give containers on one link static neighbour entries for their peers on the
// same host, if the lab has them. The function mac returns the MAC address of a container.
func PeerNeighbours(lab Lab, h Host, ends []Endpoint, mac func(Container) string) []host.Step {
	if !lab.StaticNeighbours() {
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
