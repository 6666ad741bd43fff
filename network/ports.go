package network

import (
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
)

// Wired is a network in which every container has a link of its own to the switch of the underlay. [Underlay] makes the
// links.
type Wired interface {
	// Wired says whether that is so with these parameters, and whether the links are moved away from where they are made.
	Wired(p part.Params) (wired, moved bool)
}

// A Borrower is a network that takes something from the machine itself, whose network namespace its hosts know as
// [host.Machine]. Undoing the plans returns it.
type Borrower interface {
	// Borrows returns what that is with these parameters, one by one and in words, nil for nothing. Two labs cannot have
	// the same.
	Borrows(p part.Params) []string
}

// wired asks a network.
func wired(n Network, p part.Params) (wired, moved bool) {
	if w, ok := n.(Wired); ok {
		return w.Wired(p)
	}
	return false, false
}

// Switch is the bridge that replaces the underlay in a lab of one host.
const Switch = "sw0"

// Names of a container's link to the switch, on its host, and of the other end where the switch is on the same host.
const (
	portName = "p%s"
	jackName = "s%s"
	// underlayJack is the other end where the switch is the underlay: of the host's name and the number of the container.
	underlayJack = "%sc%d"
)

// SwitchPort returns the name, on its host, of a container's link to the switch.
func SwitchPort(c Container) string { return fmt.Sprintf(portName, c.Name) }

// Plugs returns the names of the links of a host's containers to the switch, and the steps that make them where the
// host is the only one and has a switch of its own; otherwise the underlay does. moved is as of [Wired].
func Plugs(lab Lab, h Host, moved bool) (names []string, steps []host.Step, err error) {
	name := h.Name()
	if h.Uplink == "" {
		if len(h.Containers) > MaxPorts {
			return nil, nil, fmt.Errorf("host %d: %d containers, but a bridge has at most %d ports", h.Index, len(h.Containers),
				MaxPorts)
		}
		steps = append(steps, host.Bridge{Name: Switch, MAC: MAC(lab.Seed, name, Switch), MTU: lab.MTU})
	}
	names = make([]string, len(h.Containers))
	for i, c := range h.Containers {
		if names[i], err = linkName(portName, h, c); err != nil {
			return nil, nil, err
		}
		if h.Uplink == "" {
			jack := fmt.Sprintf(jackName, c.Name)
			steps = append(steps, host.Veth{
				Name: jack, MAC: MAC(lab.Seed, name, jack), MTU: lab.MTU, Master: Switch,
				PeerName: names[i], PeerMAC: MAC(lab.Seed, name, names[i]), PeerMoves: moved,
			})
		}
	}
	return names, steps, nil
}

// jacks returns the steps by which the underlay makes the links of a host's containers.
func jacks(lab Lab, h Host, moved bool) []host.Step {
	name := h.Name()
	var steps []host.Step
	for _, c := range h.Containers {
		jack, port := fmt.Sprintf(underlayJack, name, c.Index), SwitchPort(c)
		steps = append(steps, host.Veth{
			Name: jack, MAC: MAC(lab.Seed, "underlay", jack), MTU: lab.outer(), Master: underlayBridge,
			PeerNS: "@" + name, PeerName: port, PeerMAC: MAC(lab.Seed, name, port), PeerMoves: moved,
		})
		for _, s := range lab.Underlay.shape("", jack, jack, lab.outer()) {
			steps = append(steps, s)
		}
	}
	return steps
}
