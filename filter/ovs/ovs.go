package ovs

import (
	"fmt"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/ovs"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// Filter is the filter "ovs".
type Filter struct{}

// Describe says what it is.
func (Filter) Describe() filter.Description {
	return filter.Description{
		Description: part.Description{
			Name:           "ovs",
			Summary:        "OpenFlow flows in the host's Open vSwitch, with or without its connection tracking",
			Implementation: "ovs",
			Params:         filter.Params(),
		},
		Fragments:  func(part.Params) filter.Fragments { return filter.ByAddress },
		Errors:     filter.Tracked,
		Extensions: filter.Follows,
		Claims:     filter.Claims(filter.Tracked),
		Steps:      map[string]func() host.Step{Allow{}.Kind(): func() host.Step { return new(Allow) }},
	}
}

// Refuse wants an Open vSwitch.
func (Filter) Refuse(w filter.Where, _ part.Params) string {
	if w.Point != network.AtOpenFlow {
		return fmt.Sprintf("filter ovs needs an Open vSwitch, and network %s has none (use network ovs)", w.Network)
	}
	return ""
}

// Check wants the programs.
func (Filter) Check(part.Params) error { return ovs.Installed() }

// Build returns the step.
func (Filter) Build(s filter.Site) ([]host.Step, error) {
	if s.Point != network.AtOpenFlow || s.Bridge == "" {
		return nil, fmt.Errorf("filter ovs %s: Open vSwitch is required", s.Point)
	}
	gate4, gate6 := network.Gateway(s.Host)
	own := []string{gate4.Addr().String(), gate6.Addr().String()}
	for _, a := range s.Underlay {
		own = append(own, a.String())
	}
	bound, err := s.Bindings()
	if err != nil {
		return nil, err
	}
	step := Allow{Bridge: s.Bridge, Own: own, List: s.List, Bound: bound}
	if bound != nil {
		step.MAC = s.BridgeMAC
		if _, err := step.hardware(); err != nil {
			return nil, fmt.Errorf("host %d: bridge %q: %w", s.Host, s.Bridge, err)
		}
	}
	return []host.Step{step}, nil
}
