package networktest

import (
	"net/netip"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
)

// Fake is a network for tests. The zero value touches no kernel: its plans are empty, and all endpoints are those of
// the loopback link of the host.
type Fake struct {
	// Description is what it says it is; the zero value says "fake".
	Description network.Description
	// BuildFunc is what Build calls, if it is not nil.
	BuildFunc func(network.Lab) ([]host.Plan, [][]network.Endpoint, error)
	// Serving is the network whose ranges it serves, and whose kinds of steps its plans may have; nil for none.
	Serving network.Network
}

// Describe says what it is.
func (f Fake) Describe() network.Description {
	if f.Description.Name == "" && f.Description.Summary == "" {
		return network.Description{Name: "fake", Summary: "joins nothing", Implementation: "kernel"}
	}
	return f.Description
}

// Serves returns what Serving serves.
func (f Fake) Serves(lab network.Lab, h network.Host) []netip.Prefix {
	if f.Serving == nil {
		return nil
	}
	return network.Serves(f.Serving, lab, h)
}

// Steps are the kinds of steps of Serving.
func (f Fake) Steps() map[string]func() host.Step {
	if own, ok := f.Serving.(host.Stepper); ok {
		return own.Steps()
	}
	return nil
}

// Trace says nothing about the way.
func (Fake) Trace(network.Trip) network.Way { return network.Way{} }

// Build calls BuildFunc, or checks the lab and returns empty plans.
func (f Fake) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	if f.BuildFunc != nil {
		return f.BuildFunc(lab)
	}
	if err := lab.Check(); err != nil {
		return nil, nil, err
	}
	plans, ends := make([]host.Plan, len(lab.Hosts)), make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		ends[i] = make([]network.Endpoint, len(h.Containers))
		for j := range ends[i] {
			ends[i][j] = network.Endpoint{IPv4: netip.AddrFrom4([4]byte{127, 0, 0, 1}), IPv6: netip.IPv6Loopback()}
		}
	}
	return plans, ends, nil
}
