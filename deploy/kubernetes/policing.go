package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
)

// A Direction is that of packets that a policy is about, as its pods see them.
type Direction string

// Directions of policies.
const (
	Ingress Direction = "ingress"
	Egress  Direction = "egress"
)

// Policing is a pod on each of two nodes, and flows from the first to the second one while policies come and go. It
// measures when they take effect.
type Policing struct {
	deployment   *Deployment
	name         string // of its policies, among all labs
	source, sink end
	flows        uint32 // numbers that were given
	used         int    // ports of new flows between the ends
}

// end is an end of flows.
type end struct {
	scout *running
	index int // of its pod among the scouts
	addr  netip.Addr
}

// Policing puts a pod on each node of the deployment, of which the first two are its ends. The deployment closes it.
func (d *Deployment) Policing(ctx context.Context) (*Policing, error) {
	if d.Hosts < 2 {
		return nil, fmt.Errorf("invalid number of nodes %d (valid: 2 or more)", d.Hosts)
	}
	d.policed = true
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	pods, err := d.podsOf(ctx, d.scouts.name)
	if err != nil {
		return nil, err
	}
	p := &Policing{deployment: d, name: d.jobName("policing")}
	for i, e := range []*end{&p.source, &p.sink} {
		e.scout = d.nodes[i].scout
		at := slices.IndexFunc(pods, func(one pod) bool { return one.Metadata.Name == e.scout.pod })
		if at < 0 {
			return nil, fmt.Errorf("pod %q is not there any more", e.scout.pod)
		}
		e.index = pods[at].index()
		v4, v6 := pods[at].addresses()
		if e.addr = v4; !v4.IsValid() {
			e.addr = v6
		}
	}
	return p, p.sink.scout.Call(ctx, methodReceive, nil, nil)
}

// Cluster returns what is known of the cluster: its context, version and network plugins; and its nodes.
func (p *Policing) Cluster() (facts map[string]any, nodes []string) {
	for _, n := range p.deployment.nodes {
		nodes = append(nodes, n.name)
	}
	return maps.Clone(p.deployment.cluster), nodes
}

// A Policy is one of the study of policies.
type Policy struct {
	Direction Direction
	// Allow says that it allows all between the two ends. Otherwise it allows nothing but its rules.
	Allow bool
	// Rules is how many address ranges that nobody has it allows besides: 0 to [MaxRules].
	Rules int
	// Fresh says that it is about fresh pods, and not about an end: see [Policing.Fresh].
	Fresh bool
}

// MaxRules is the largest number of address ranges of a [Policy].
const MaxRules = peersEach

func (p *Policing) object(of Policy) object {
	at, other, types, key := p.sink, p.source, "Ingress", "from"
	if of.Direction == Egress {
		at, other, types, key = p.source, p.sink, "Egress", "to"
	}
	what, selector := "deny", p.selector(at)
	if of.Fresh {
		what, selector = "fresh", object{"matchLabels": object{labLabel: p.fresh(true)}}
	}
	peers, _ := decoysFrom(decoyBase, of.Rules)
	if of.Allow {
		what = "allow"
		peers = append(peers, object{"podSelector": p.selector(other)})
	}
	spec := object{"policyTypes": []string{types}}
	if len(peers) > 0 { // an empty list would allow everybody
		spec[string(of.Direction)] = []object{{key: peers}}
	}
	return p.deployment.policy(p.name, what+"-"+string(of.Direction), selector, spec)
}

// selector selects the pod of an end.
func (p *Policing) selector(e end) object {
	return p.deployment.scouts.selector(e.index)
}

// A Change is a request that changes policies: when it was sent, and when its answer came, in ns of this process's
// clock (CLOCK_MONOTONIC). The API server has answered at some time between them.
type Change struct{ Asked, Answered int64 }

// Took returns how long the answer took.
func (c Change) Took() time.Duration { return time.Duration(c.Answered - c.Asked) }

// Create makes a policy.
func (p *Policing) Create(ctx context.Context, of Policy) (c Change, err error) {
	c.Asked = clock.Now()
	err = p.deployment.client.Create(ctx, p.deployment.path(networking, "networkpolicies"), p.object(of), nil)
	c.Answered = clock.Now()
	if err != nil {
		return c, fmt.Errorf("make a policy: %w", err)
	}
	return c, nil
}

// Remove removes a policy. Removing what is not there succeeds.
func (p *Policing) Remove(ctx context.Context, of Policy) (c Change, err error) {
	meta, _ := p.object(of)["metadata"].(object)
	name := fmt.Sprint(meta["name"])
	c.Asked = clock.Now()
	err = p.deployment.client.Delete(ctx, p.deployment.path(networking, "networkpolicies")+"/"+url.PathEscape(name), nil)
	c.Answered = clock.Now()
	if err != nil && !absent(err) {
		return c, fmt.Errorf("remove policy %q: %w", name, err)
	}
	return c, nil
}

// Clear removes the policies of both ends and of fresh pods, also if ctx has ended.
func (p *Policing) Clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer cancel()
	var errs []error
	for _, direction := range []Direction{Ingress, Egress} {
		for _, one := range []Policy{{}, {Allow: true}, {Fresh: true}} {
			one.Direction = direction
			_, err := p.Remove(ctx, one)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// offset returns how far the clock of an end is ahead of this process's, and how wrong that may be at most, both in ns:
// the best of some calls. The halves of a call may differ by all of it (RFC 5905, section 8).
func (e end) offset(ctx context.Context) (ahead, wrong int64, err error) {
	const calls = 5
	for i := range calls {
		var there int64
		began := clock.Now()
		if err := e.scout.Call(ctx, methodClock, nil, &there); err != nil {
			return 0, 0, err
		}
		ended := clock.Now()
		if half := (ended - began) / 2; i == 0 || half < wrong {
			ahead, wrong = there-began-half, half
		}
	}
	return ahead, wrong, nil
}

// A Flow goes from the first end to the second one.
type Flow struct {
	policing *Policing
	number   uint32
	every    time.Duration
}

const (
	// silence is how long nothing may have arrived of a flow that a policy refuses: longer than plugins pause.
	silence = time.Second
	// ask is the time between two questions of what has arrived.
	ask = 100 * time.Millisecond
	// steadyLimit is how long it may take until a flow that nothing refuses arrives: on a busy machine plugins have taken
	// 24 s to forget a policy.
	steadyLimit = time.Minute
)

// Flow begins a flow with a message each time every.
func (p *Policing) Flow(ctx context.Context, kind FlowKind, every time.Duration) (*Flow, error) {
	p.flows++
	f := &Flow{policing: p, number: p.flows, every: every}
	return f, p.source.scout.Call(ctx, methodSend, sending{
		Flow: f.number, Kind: kind, To: netip.AddrPortFrom(p.sink.addr, flowPort), Every: every, Used: p.used,
	}, nil)
}

// Stop ends the flow. Ports that it has used are not those of the next one.
func (f *Flow) Stop(ctx context.Context) error {
	var sent int
	err := f.policing.source.scout.Call(ctx, methodStop, asked{Flow: f.number}, &sent)
	f.policing.used += sent
	return err
}

// Last returns the number of the last message that arrived, -1 if none did, and how long ago that was.
func (f *Flow) Last(ctx context.Context) (number int, ago time.Duration, err error) {
	a, err := f.arrived(ctx, -1)
	if err != nil || a.Count == 0 {
		return -1, 0, err
	}
	return a.Last.Number, time.Duration(a.Now - a.Last.At), nil
}

// arrived returns what has arrived behind a message.
func (f *Flow) arrived(ctx context.Context, behind int) (a arrived, err error) {
	err = f.policing.sink.scout.Call(ctx, methodArrived, asked{f.number, behind}, &a)
	return a, err
}

// poll asks until done, for so long.
func poll(ctx context.Context, patience time.Duration, done func() (bool, error)) (bool, error) {
	for end := time.Now().Add(patience); ; {
		if ok, err := done(); ok || err != nil {
			return ok, err
		}
		if time.Now().After(end) {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(ask):
		}
	}
}

// Steady waits until the flow arrives.
func (f *Flow) Steady(ctx context.Context) error {
	const some = 20
	ok, err := poll(ctx, steadyLimit, func() (bool, error) {
		a, err := f.arrived(ctx, -1)
		return a.Count >= some && time.Duration(a.Now-a.Last.At) < silence/2, err
	})
	if err == nil && !ok {
		err = fmt.Errorf("no flow from pod %q to pod %q within %v: something refuses it (another policy of the namespace?)",
			f.policing.source.scout.pod, f.policing.sink.scout.pod, steadyLimit)
	}
	return err
}

// A Moment lies between two times after the answer to a change, which may be wrong by an error: that of the clocks.
type Moment struct{ From, To, Error time.Duration }

// Middle is the middle of its two times.
func (m Moment) Middle() time.Duration { return (m.From + m.To) / 2 }

// Resolution is how far the moment may be from its middle.
func (m Moment) Resolution() time.Duration { return (m.To-m.From)/2 + m.Error }

// Ends waits until nothing arrives any more of what is sent for a second, and returns the moment between the last
// message that arrived and the next one, which did not. It returns false if that is not so when patience has passed
// since the change.
func (f *Flow) Ends(ctx context.Context, of Change, patience time.Duration) (m Moment, ok bool, err error) {
	ok, err = poll(ctx, patience-time.Duration(clock.Now()-of.Answered), func() (bool, error) {
		number, ago, err := f.Last(ctx)
		if err != nil || number < 0 || ago < silence {
			return false, err
		}
		var next sent
		if err := f.policing.source.scout.Call(ctx, methodSent, asked{f.number, number + 1}, &next); err != nil {
			return false, nil //nolint:nilerr // the sender itself may have paused
		}
		if time.Duration(next.Count-number)*f.every < silence/2 { // likewise
			return false, nil
		}
		m, err = f.moment(ctx, of, number)
		return true, err
	})
	return m, ok && err == nil, err
}

// Begins waits until a message arrives behind the number of the last one, and returns the moment between the one before
// it, which did not arrive, and it. It returns false if none has when patience has passed since the change.
func (f *Flow) Begins(ctx context.Context, of Change, last int, patience time.Duration) (m Moment, ok bool, err error) {
	ok, err = poll(ctx, patience-time.Duration(clock.Now()-of.Answered), func() (bool, error) {
		a, err := f.arrived(ctx, last)
		if err != nil || a.Count == 0 {
			return false, err
		}
		m, err = f.moment(ctx, of, a.First.Number-1)
		return true, err
	})
	return m, ok && err == nil, err
}

// Left returns the moment of the last message that arrived, or false if one has arrived within the last half second.
func (f *Flow) Left(ctx context.Context, of Change) (m Moment, ended bool, err error) {
	number, ago, err := f.Last(ctx)
	if err != nil || number >= 0 && ago < silence/2 {
		return m, false, err
	}
	m, err = f.moment(ctx, of, number)
	return m, true, err
}

// moment returns the moment between a message and the next one. That which is before the first one is the first one.
func (f *Flow) moment(ctx context.Context, of Change, number int) (m Moment, err error) {
	from := f.policing.source
	ahead, wrong, err := from.offset(ctx)
	if err != nil {
		return m, err
	}
	var at [2]sent
	for i := range at {
		if err := from.scout.Call(ctx, methodSent, asked{f.number, max(0, number+i)}, &at[i]); err != nil {
			return m, err
		}
	}
	since := func(t int64) time.Duration { return time.Duration(t - ahead - of.Answered) }
	return Moment{From: since(at[0].At), To: since(at[1].At), Error: time.Duration(wrong)}, nil
}
