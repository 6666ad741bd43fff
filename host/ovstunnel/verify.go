package ovstunnel

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/iptunnel"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf/divert"
	"github.com/nettoll/nettoll/internal/linux/ovs"
)

// Verify checks that the programs run, and that the links, ports, flows and routes are those of the step.
func (t Links) Verify(k *host.Kernel) error {
	drift := &host.DriftError{Step: t.String()}
	differ := func(what, want, got string) {
		if want != got {
			drift.Drifts = append(drift.Drifts, linux.Difference{What: what, Want: want, Got: got})
		}
	}
	states := map[string]host.ProgramState{}
	for _, p := range k.Programs() {
		states[p.Name] = p
	}
	for _, name := range []string{daemonName, serverName} {
		p, ok := states[name]
		switch {
		case !ok:
			differ(name, "running", "not started")
		case p.Died != "":
			differ(name, "running", p.Died)
		}
	}
	if len(drift.Drifts) > 0 {
		return drift
	}
	if err := t.verifySteps(k, drift); err != nil {
		return err
	}
	i, err := t.instance(k)
	if err != nil {
		return err
	}
	if err := t.verifyPorts(i, differ); err != nil {
		return err
	}
	if len(drift.Drifts) > 0 {
		return drift
	}
	if err := t.verifyFlows(i, differ); err != nil {
		return err
	}
	if err := t.verifyRoutes(i, differ); err != nil {
		return err
	}
	d, err := t.diverted()
	if err != nil {
		return err
	}
	if err := k.Do("", func() error {
		found, err := divert.Compare(d)
		drift.Drifts = append(drift.Drifts, found...)
		return err
	}); err != nil {
		return err
	}
	if len(drift.Drifts) > 0 {
		return drift
	}
	return nil
}

// verifySteps adds the differences of the given steps.
func (t Links) verifySteps(k *host.Kernel, drift *host.DriftError) error {
	after, err := t.after()
	if err != nil {
		return err
	}
	for _, s := range append(t.before(), after...) {
		err := s.Verify(k)
		if d, ok := errors.AsType[*host.DriftError](err); ok {
			drift.Drifts = append(drift.Drifts, d.Drifts...)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (t Links) verifyPorts(i ovs.Instance, differ func(what, want, got string)) error {
	state, err := i.State()
	if err != nil {
		return err
	}
	differ("copies of packets", "none", cmp.Or(strings.Join(state.Copies, ", "), "none"))
	found := map[string]ovs.Port{}
	for _, p := range state.Ports {
		found[p.Name] = p
	}
	for _, b := range t.bridges() {
		delete(found, b.Name)
		for n, want := range b.Ports {
			got, ok := found[want.Name]
			delete(found, want.Name)
			what := "port " + want.Name
			if !ok {
				differ(what, linux.Present, linux.Absent)
				continue
			}
			number := strconv.Itoa(got.Number)
			if got.Number <= 0 {
				number = "none: " + got.Error
			}
			differ("number of "+what, strconv.Itoa(n+1), number)
			differ("type of "+what, want.Type, got.Type)
			differ("options of "+what, text(want.Options), text(got.Options))
		}
	}
	differ("ports that are too many", "", strings.Join(slices.Sorted(maps.Keys(found)), ", "))
	return nil
}

// text writes options in a fixed order.
func text(options map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		list = append(list, name+"="+options[name])
	}
	return strings.Join(list, ", ")
}

func (t Links) verifyFlows(i ovs.Instance, differ func(what, want, got string)) error {
	for _, b := range t.bridges() {
		flows, err := t.flows(b.Name)
		if err != nil {
			return err
		}
		conn, err := ovs.Connect(i.Bridge(b.Name))
		if err != nil {
			return err
		}
		err = conn.Compare(ovs.Owner{}, slices.Values(flows), func(what, want, got string) {
			differ("bridge "+b.Name+": "+what, want, got)
		})
		conn.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyRoutes asks the daemon for its routes.
func (t Links) verifyRoutes(i ovs.Instance, differ func(what, want, got string)) error {
	for _, p := range t.peers() {
		to, err := netip.ParseAddr(p.Remote)
		if err != nil {
			return err
		}
		want, err := t.route(p)
		if err != nil {
			return err
		}
		got, err := i.Route(to)
		if err != nil {
			return err
		}
		differ(fmt.Sprintf("route of %s to %s", daemonName, to), want.String(), got.String())
	}
	return nil
}

// Count returns the packets that the tunnel ports have sent and received, by the links whose frames they carry.
func (t Links) Count(k *host.Kernel) (map[string]uint64, error) {
	i, err := t.instance(k)
	if err != nil {
		return nil, err
	}
	if err := i.ForgetDecisions(); err != nil { // the counters include packets that cached decisions let pass
		return nil, err
	}
	conn, err := ovs.Connect(i.Bridge(inner))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ports, err := conn.PortCounts()
	if err != nil {
		return nil, err
	}
	counts := map[string]uint64{}
	peer := uint32(len(t.Links))
	for _, l := range t.Links {
		for range l.Peers {
			peer++
			counts[iptunnel.Sent(l.Name)] += ports[peer].Sent
			counts[iptunnel.Received(l.Name)] += ports[peer].Received
		}
	}
	return counts, nil
}

// Silent says that nothing tells of its ports and flows, see [host.Silent].
func (Links) Silent() {}
