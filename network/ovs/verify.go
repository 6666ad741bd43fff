package ovs

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/internal/linux/ovs"
)

// Verify asks whether the programs run, the ports are there and the flows are those of the step and of filters.
func (s Switch) Verify(k *host.Kernel) error {
	drift := func(what, want, got string) error {
		return &host.DriftError{Step: s.String(), Drifts: []linux.Difference{{What: what, Want: want, Got: got}}}
	}
	states := map[string]host.ProgramState{}
	for _, p := range k.Programs() {
		states[p.Name] = p
	}
	for _, name := range []string{ovs.Daemon, ovs.Server} {
		p, ok := states[name]
		if !ok {
			return drift(name, "running", "not started")
		}
		if p.Died != "" {
			return drift(name, "running", p.Died)
		}
	}
	dir, err := k.RunDir(ovs.RunDir)
	if err != nil {
		return err
	}
	instance := ovs.Instance{Dir: dir}
	var drifts []linux.Difference
	differ := func(what, want, got string) {
		if want != got {
			drifts = append(drifts, linux.Difference{What: what, Want: want, Got: got})
		}
	}
	if err := s.verifyPorts(instance, differ); err != nil {
		return err
	}
	if err := s.verifyDeafness(k, differ); err != nil {
		return err
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	if l, err := h.ByName(s.Name); errors.Is(err, link.ErrNotFound) {
		differ("link "+s.Name, "present", "absent")
	} else if err != nil {
		return err
	} else {
		differ("mac of "+s.Name, s.MAC, l.MAC.String())
		differ("mtu of "+s.Name, strconv.Itoa(s.MTU), strconv.Itoa(l.MTU))
	}
	if len(drifts) == 0 {
		if err := s.verifyFlows(instance, differ); err != nil {
			return err
		}
	}
	if len(drifts) > 0 {
		return &host.DriftError{Step: s.String(), Drifts: drifts}
	}
	return nil
}

// verifyDeafness asks whether the host's stack still gets nothing from the ports.
func (s Switch) verifyDeafness(k *host.Kernel, differ func(what, want, got string)) error {
	if of, err := s.datapath(k); err != nil || of != ovs.Userspace || len(s.Ports) == 0 {
		return err
	}
	return k.Do("", func() error {
		differences, err := ruleset.Compare(s.deaf())
		for _, d := range differences {
			differ(d.What, d.Want, d.Got)
		}
		return err
	})
}

// verifyPorts asks whether the ports are there, and whether the switch copies packets to somebody else.
func (s Switch) verifyPorts(instance ovs.Instance, differ func(what, want, got string)) error {
	state, err := instance.State()
	if err != nil {
		return err
	}
	differ("copies of packets", "none", cmp.Or(strings.Join(state.Copies, ", "), "none"))
	numbers := map[string]string{}
	for _, p := range state.Ports {
		numbers[p.Name] = strconv.Itoa(p.Number)
		if p.Number <= 0 {
			numbers[p.Name] = "none: " + p.Error
		}
	}
	for i, p := range s.Ports {
		got, ok := numbers[p.Name]
		if !ok {
			got = "none"
		}
		differ("number of port "+p.Name, strconv.Itoa(i+1), got)
	}
	differ("ports of "+s.Name, strconv.Itoa(len(s.Ports)+1), strconv.Itoa(len(state.Ports)))
	return nil
}

func (s Switch) verifyFlows(instance ovs.Instance, differ func(what, want, got string)) error {
	conn, err := ovs.Connect(instance.Bridge(s.Name))
	if err != nil {
		return err
	}
	defer conn.Close()
	flows, err := s.flows()
	if err != nil {
		return err
	}
	if err := conn.Compare(ovs.Only(ovs.CookieNetwork), slices.Values(flows), differ); err != nil {
		return err
	}
	strangers, err := conn.Strangers()
	differ("flows of unknown owner", "0", strconv.Itoa(strangers))
	return err
}

const (
	idleTime   = 500 * time.Millisecond
	idleWindow = 50 * time.Millisecond
	idleLimit  = 0.002 // of a core: design.md, "Decisions", 3
)

// MeasureCost notes how long the first packet of a flow takes (first_packet_latency, s: an echo and its reply, which
// both go up to the daemon), between the first two containers or, if there is only one, with the host. A filter decides
// who may talk, so it measures that itself. A switch that is busy when nothing is sent becomes a doubt.
func (s Switch) MeasureCost(ctx context.Context, k *host.Kernel) error {
	dir, err := k.RunDir(ovs.RunDir)
	if err != nil {
		return err
	}
	instance := ovs.Instance{Dir: dir}
	if err := s.measureIdle(ctx, k); err != nil || len(s.Ports) == 0 {
		return err
	}
	if filtered, err := s.filtered(instance); err != nil || filtered {
		return err
	}
	to := s.Gateway
	if len(s.Ports) > 1 {
		to = s.Ports[1].Addresses
	}
	from, err := netip.ParseAddr(s.Ports[0].Addresses[0])
	if err != nil {
		return err
	}
	target, err := netip.ParseAddr(to[0])
	if err != nil {
		return err
	}
	took, ok, err := instance.FirstPacket(func(f func() error) error {
		return k.Do(s.Ports[0].NS, f)
	}, from, target)
	if err != nil {
		return err
	}
	if ok { // else they cannot talk
		k.Metric("first_packet_latency", took.Seconds())
	}
	return nil
}

// filtered reports whether the switch has flows of a filter.
func (s Switch) filtered(instance ovs.Instance) (bool, error) {
	conn, err := ovs.Connect(instance.Bridge(s.Name))
	if err != nil {
		return false, err
	}
	defer conn.Close()
	_, flows, err := conn.Packets(ovs.Filter())
	return flows > 0, err
}

// measureIdle doubts a switch that is busy in times in which no packet passes. Just after it was built there are some:
// containers solicit routers, and tell which groups they are in.
func (s Switch) measureIdle(ctx context.Context, k *host.Kernel) error {
	used, passed, err := watch(k)
	if err != nil {
		return err
	}
	var idle, busy time.Duration
	began := time.Now()
	for end := began.Add(idleTime); began.Before(end); {
		select {
		case <-time.After(idleWindow):
		case <-ctx.Done():
			return ctx.Err()
		}
		u, p, err := watch(k)
		if err != nil {
			return err
		}
		now := time.Now()
		if p == passed {
			idle, busy = idle+now.Sub(began), busy+u-used
		}
		began, used, passed = now, u, p
	}
	if busy.Seconds() > idleLimit*idle.Seconds() { // without the figure, so that all labs and generations say the same
		k.Doubt("Open vSwitch uses more than %g %% of a core while idle, which slows down other labs: measure it in a "+
			"run of its own", idleLimit*100)
	}
	return nil
}

// watch returns how long the programs have run, and how many packets the host's links have seen.
func watch(k *host.Kernel) (used time.Duration, passed uint64, err error) {
	for _, p := range k.Programs() {
		if p.Name != ovs.Daemon && p.Name != ovs.Server || p.Died != "" {
			continue
		}
		one, err := ovs.CPUTime(p.PID)
		if err != nil {
			return 0, 0, err
		}
		used += one
	}
	err = k.Do("", func() (err error) {
		passed, err = ovs.Passed()
		return err
	})
	return used, passed, err
}

// Silent says that no event reports changes of its ports and flows, see [host.Silent].
func (Switch) Silent() {}
