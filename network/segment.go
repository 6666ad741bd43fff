package network

import (
	"errors"
	"fmt"

	"github.com/nettoll/nettoll/host"
)

// CheckSegment returns what is wrong with a lab whose containers are neighbours of the hosts on the underlay: what
// [Lab.Check] does, and that their addresses ([SegmentAddr]) suffice.
func (l Lab) CheckSegment() error {
	if err := l.Check(); err != nil {
		return err
	}
	if len(l.Hosts) > 1 && l.Routed() {
		return errors.New(notRouted)
	}
	if len(l.Hosts) > MaxSegmentHosts {
		return fmt.Errorf("%d hosts, but the address range of the underlay has room for the containers of %d", len(l.Hosts),
			MaxSegmentHosts)
	}
	for _, h := range l.Hosts {
		if len(h.Containers) > MaxSegmentContainers {
			return fmt.Errorf("host %d: %d containers, but the address range of the underlay has room for %d", h.Index,
				len(h.Containers), MaxSegmentContainers)
		}
	}
	return nil
}

// Names of the links of a host without an uplink: the one below the containers' links, and its idle end.
const (
	Lower = "lower0"
	idle0 = "idle0"
)

// Below returns the link that links of containers can be created on: the host's uplink or, in a lab of one host, one
// that the steps make. It is not the loopback link and has a carrier.
func Below(lab Lab, h Host) (lower string, steps []host.Step) {
	if h.Uplink != "" {
		return h.Uplink, nil
	}
	name := h.Name()
	return Lower, []host.Step{host.Veth{
		Name: Lower, MAC: MAC(lab.Seed, name, Lower), MTU: lab.MTU,
		PeerName: idle0, PeerMAC: MAC(lab.Seed, name, idle0),
	}}
}
