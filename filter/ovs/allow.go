package ovs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/linux/ovs"
)

// Allow enforces an allow-list in the Open vSwitch of the host.
type Allow struct {
	Bridge string `json:"bridge"`
	// Own are the addresses of the host: what it sends passes, and nothing is let through to it.
	Own  []string    `json:"own"`
	List filter.List `json:"list"`
	// Bound are the addresses of what is at port 1, 2 and so on, where they are bound.
	Bound []filter.Binding `json:"bound,omitempty"`
	// MAC is the address of the bridge's own link, where addresses are bound.
	MAC string `json:"mac,omitempty"`
}

var _ filter.Step = Allow{}

// Kind returns "ovs-allow".
func (Allow) Kind() string { return "ovs-allow" }

// String says the step as a person would.
func (a Allow) String() string {
	how := "stateless"
	if a.List.Stateful {
		how = "stateful"
	}
	where := "before"
	if a.List.After {
		where = "after"
	}
	if a.Bound != nil {
		how += fmt.Sprintf(", addresses bound to %d ports", len(a.Bound))
	}
	return fmt.Sprintf("flows of %s: %d allowed, %d decoy rules %s them, %s, %s; all else is dropped", a.Bridge,
		len(a.List.Allowed), a.List.Decoys, where, how, strings.Join(a.List.Families, " and "))
}

// Listed returns the list.
func (a Allow) Listed() filter.List { return a.List }

// connect connects to the bridge.
func (a Allow) connect(k *host.Kernel) (*ovs.Conn, ovs.Instance, error) {
	dir, err := k.RunDir(ovs.RunDir)
	if err != nil {
		return nil, ovs.Instance{}, err
	}
	i := ovs.Instance{Dir: dir}
	c, err := ovs.Connect(i.Bridge(a.Bridge))
	return c, i, err
}

// running says whether the daemon does. What has died is the network's to tell, and needs no undoing.
func running(k *host.Kernel) bool {
	for _, p := range k.Programs() {
		if p.Name == ovs.Daemon {
			return p.Died == ""
		}
	}
	return false
}

// allowWas is what an [Allow] keeps: who forwards, and the daemon that has the flows.
type allowWas struct {
	Datapath string       `json:"datapath"`
	Daemon   host.Process `json:"daemon"`
}

// Apply puts all flows in at once.
func (a Allow) Apply(_ context.Context, k *host.Kernel) error {
	was := allowWas{datapath(k), k.Process(ovs.Daemon)}
	flows, err := a.flows(was.Datapath)
	if err != nil {
		return err
	}
	c, i, err := a.connect(k)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, n, err := c.Packets(ovs.Filter()); err != nil {
		return err
	} else if n > 0 {
		return fmt.Errorf("bridge %q already has %d flows of a filter", a.Bridge, n)
	}
	if err := k.Keep(was); err != nil {
		return err
	}
	if err := a.put(k, c, i, was, flows); err != nil {
		return errors.Join(err, a.remove(k, was))
	}
	k.Implementation("filter", ovs.Implementation(was.Datapath))
	return nil
}

// put puts the flows in.
func (a Allow) put(k *host.Kernel, c *ovs.Conn, i ovs.Instance, was allowWas, flows iter.Seq[ovs.Flow]) error {
	if err := c.MatchFragments(true); err != nil {
		return err
	}
	if a.List.Stateful && was.Datapath == ovs.Userspace {
		if err := i.Reassemble(false); err != nil {
			return err
		}
	}
	before, known := a.memory(k)
	if err := k.Load("rules", func() error { return c.Modify(ovs.FlowMod{Add: flows}) }); err != nil {
		return err
	}
	if after, still := a.memory(k); known && still { // flows are in the daemon, not in the kernel
		k.Metric("rules_memory", float64(max(0, after-before)))
	}
	return i.ForgetDecisions()
}

// Remove deletes the flows.
func (a Allow) Remove(_ context.Context, k *host.Kernel) error {
	var was allowWas
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	return a.remove(k, was)
}

// memory is that of the daemon, in bytes.
func (a Allow) memory(k *host.Kernel) (int64, bool) {
	for _, p := range k.Programs() {
		if p.Name == ovs.Daemon && p.Died == "" {
			n, err := ovs.Memory(p.PID)
			return n, err == nil
		}
	}
	return 0, false
}

// remove deletes the flows, where there is still a switch, and forgets what they have decided and the connections.
func (a Allow) remove(k *host.Kernel, was allowWas) error {
	if !k.Runs(was.Daemon) {
		return nil
	}
	c, i, err := a.connect(k)
	if err != nil {
		return err
	}
	defer c.Close()
	err = errors.Join(c.Modify(ovs.FlowMod{DeleteAll: []ovs.Owner{ovs.Filter()}}), c.MatchFragments(false),
		i.ForgetDecisions())
	if a.List.Stateful {
		err = errors.Join(err, i.ForgetAll())
		if was.Datapath == ovs.Userspace {
			err = errors.Join(err, i.Reassemble(true))
		}
	}
	return err
}

// datapath is who forwards, as the network has found out.
func datapath(k *host.Kernel) string {
	if k.Report().Implementations["network"] == ovs.Implementation(ovs.Kernel, ovs.Settings(ovs.Kernel)...) {
		return ovs.Kernel
	}
	return ovs.Userspace
}

// Verify compares all flows. One that is nobody's may let packets pass beside them.
func (a Allow) Verify(k *host.Kernel) error {
	if !running(k) {
		return &host.DriftError{Step: a.String(), Drifts: []linux.Difference{
			{What: "flows", Want: "present", Got: "absent, and " + ovs.Daemon + " with them"},
		}}
	}
	flows, err := a.flows(datapath(k))
	if err != nil {
		return err
	}
	c, _, err := a.connect(k)
	if err != nil {
		return err
	}
	defer c.Close()
	var drifts []linux.Difference
	differ := func(what, want, got string) {
		if want != got {
			drifts = append(drifts, linux.Difference{What: what, Want: want, Got: got})
		}
	}
	if err := c.Compare(ovs.Filter(), flows, differ); err != nil {
		return err
	}
	strangers, err := c.Strangers()
	if err != nil {
		return err
	}
	differ("flows of unknown owner", "0", strconv.Itoa(strangers))
	matched, err := c.MatchesFragments()
	if err != nil {
		return err
	}
	differ("fragments are matched", "true", strconv.FormatBool(matched))
	if len(drifts) > 0 {
		return &host.DriftError{Step: a.String(), Drifts: drifts}
	}
	return nil
}

// UpdateRule adds the flows of a rule at once, or deletes them and forgets the connections that they let in. What they
// have decided is forgotten before: a packet in between would else commit its connection once more, which then passed
// for ever. A rule that is added gets to decide when the daemon has looked through decisions by itself, which is what
// is measured.
func (a Allow) UpdateRule(k *host.Kernel, r filter.Rule, allow bool) error {
	c, i, err := a.connect(k)
	if err != nil {
		return err
	}
	defer c.Close()
	var flows []ovs.Flow
	for _, w := range a.ways(ovs.CookieAdded, priorityAdded, datapath(k)) {
		for _, f := range slices.Concat(w.ports(r), w.senders(r), w.addresses(r)) {
			flows = append(flows, a.placed(f))
		}
	}
	if allow {
		return c.Modify(ovs.FlowMod{Add: slices.Values(flows)})
	}
	if err := c.Modify(ovs.FlowMod{Delete: slices.Values(flows)}); err != nil || !a.List.Stateful {
		return err
	}
	if err := i.ForgetDecisions(); err != nil {
		return err
	}
	for port := int(r.First); port <= int(r.Last); port++ {
		for _, protocol := range []uint8{ovs.UDP, ovs.TCP} {
			if err := i.Forget(r.Source, r.Sink, protocol, uint16(port)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Counters sums up what the flows have counted. What the datapath has counted gets to them when it is asked to forget.
func (a Allow) Counters(k *host.Kernel) (filter.Counters, error) {
	c, i, err := a.connect(k)
	if err != nil {
		return filter.Counters{}, err
	}
	defer c.Close()
	if err := i.ForgetDecisions(); err != nil {
		return filter.Counters{}, err
	}
	var sum filter.Counters
	for _, cookie := range []uint64{ovs.CookieAllowed, ovs.CookieAdded} {
		n, _, err := c.Packets(ovs.Only(cookie))
		if err != nil {
			return filter.Counters{}, err
		}
		sum.Allowed += n
	}
	sum.Refused, _, err = c.Packets(ovs.Only(ovs.CookieRefused))
	return sum, err
}

// MeasureCost notes what a change costs, and how long the first packet of an allowed pair takes (first_packet_latency,
// s).
func (a Allow) MeasureCost(ctx context.Context, k *host.Kernel) error {
	if err := filter.MeasureCost(ctx, k, a); err != nil || a.List.Proof == nil {
		return err
	}
	c, i, err := a.connect(k)
	if err != nil {
		return err
	}
	c.Close()
	proof := a.List.Proof
	took, ok, err := i.FirstPacket(func(f func() error) error {
		return k.Do(proof.SourceNS, f)
	}, proof.Source.Addr(), proof.Sink.Addr())
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("measure the first packet: no answer to an allowed echo request from %s to %s",
			proof.Source.Addr(), proof.Sink.Addr())
	}
	k.Metric("first_packet_latency", took.Seconds())
	return nil
}

// Silent says that nothing tells of its flows, see [host.Silent].
func (Allow) Silent() {}

// Tracks says whether connections are tracked, see [host.Tracker].
func (a Allow) Tracks() bool { return a.List.Stateful }

// Lasting lists connections that the flows would not let begin now, see [host.Tracker]. The datapath in userspace has a
// table of its own.
func (a Allow) Lasting(k *host.Kernel, tracked []conntrack.Flow) (list []string, doubt string, err error) {
	if datapath(k) == ovs.Userspace {
		dir, err := k.RunDir(ovs.RunDir)
		if err != nil {
			return nil, "", err
		}
		i := ovs.Instance{Dir: dir}
		n, err := i.Tracked()
		if err != nil {
			return nil, "", err
		}
		if n > host.MostTracked {
			return nil, fmt.Sprintf("Open vSwitch tracks more than %d connections, so those that outlive their permission are "+
				"not looked for", host.MostTracked), nil
		}
		if tracked, err = i.Connections(); err != nil {
			return nil, "", err
		}
	}
	return a.List.Lasting(tracked), "", nil
}
