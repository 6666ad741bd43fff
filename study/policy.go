package study

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nettoll/nettoll/deploy/kubernetes"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/measure"
)

// A PolicyPlan says what the study of NetworkPolicy measures, and on which cluster.
type PolicyPlan struct {
	// Context of the user's kubeconfig, "" for the current one; Namespace of the pods, "" for one that is made; Image of
	// the pods.
	Context, Namespace, Image string
	// Rounds is how often every direction is visited with every number of rules, in a new random order each time.
	Rounds int
	// Rules are numbers of address ranges that a policy allows and that nobody has.
	Rules []int
	// Every is the time between two messages of a flow.
	Every time.Duration
	// Patience is how long a policy may take until it has an effect; after that it counts as not enforced.
	Patience time.Duration
	// Follow is how long established flows are watched when new ones are refused.
	Follow time.Duration
	// Pods is the number of fresh pods, of which Batch are made at a time. 0: none.
	Pods, Batch int
	// Life is how long a fresh pod lives; Late is added to it.
	Life time.Duration
	// Late is how long after the start of fresh pods their policy is made. 0: before them.
	Late time.Duration
}

// DefaultPolicyPlan is the plan behind docs/kubernetes.md.
func DefaultPolicyPlan() PolicyPlan {
	return PolicyPlan{
		Rounds: 5, Rules: []int{0, 1000}, Every: 5 * time.Millisecond, Patience: 20 * time.Second, Follow: 5 * time.Second,
		Pods: 100, Batch: 10, Life: 5 * time.Second,
	}
}

// Limits of a plan.
const (
	mostFresh, mostBatch       = 10_000, 100
	leastEvery, mostEvery      = time.Millisecond, 50 * time.Millisecond
	leastPatience, mostWait    = 2 * time.Second, 10 * time.Minute
	leastLife, mostLife, later = 2 * time.Second, 5 * time.Minute, 5 * time.Minute
)

// Check returns an error if the plan is not valid.
func (p PolicyPlan) Check() error {
	for _, n := range []struct {
		flag               string
		value, least, most int
	}{
		{"count", p.Rounds, 1, mostRounds}, {"pods", p.Pods, 0, mostFresh}, {"batch", p.Batch, 1, mostBatch},
	} {
		if n.value < n.least || n.value > n.most {
			return fmt.Errorf("invalid value %d for --%s (valid: %d to %d)", n.value, n.flag, n.least, n.most)
		}
	}
	for _, d := range []struct {
		flag               string
		value, least, most time.Duration
	}{
		{"every", p.Every, leastEvery, mostEvery},
		{"patience", p.Patience, leastPatience, mostWait},
		{"follow", p.Follow, 0, mostWait},
		{"life", p.Life, leastLife, mostLife},
		{"late", p.Late, 0, later},
	} {
		if d.value < d.least || d.value > d.most {
			return fmt.Errorf("invalid value %v for --%s (valid: %v to %v)", d.value, d.flag, d.least, d.most)
		}
	}
	if len(p.Rules) == 0 {
		return fmt.Errorf("invalid value for --rules: none is given (valid: 0 to %d, such as 0,1000)", kubernetes.MaxRules)
	}
	for i, n := range p.Rules {
		if n < 0 || n > kubernetes.MaxRules {
			return fmt.Errorf("invalid value %d for --rules (valid: 0 to %d)", n, kubernetes.MaxRules)
		}
		if slices.Contains(p.Rules[:i], n) {
			return fmt.Errorf("invalid value for --rules: %d is given twice", n)
		}
	}
	return nil
}

// directions are those of policies, in the order of tables.
func directions() []kubernetes.Direction {
	return []kubernetes.Direction{kubernetes.Ingress, kubernetes.Egress}
}

// policing is a run of the study.
type policing struct {
	*Options
	plan  PolicyPlan
	found *Policies
	at    *kubernetes.Policing
}

// Policy measures what policies do in time on a cluster. After an error or an interrupt, it returns the error with the
// values measured until then.
func (o *Options) Policy(ctx context.Context, p PolicyPlan) (_ *Policies, err error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	d := &kubernetes.Deployment{
		Options: kubectl.Options{Context: p.Context}, Namespace: p.Namespace, Image: p.Image, Hosts: 2,
		Say: func(text string) { o.say("waiting: %s", text) },
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	r := &policing{Options: o, plan: p, found: &Policies{Plan: p}}
	o.say("starting a pod on each of two nodes")
	if r.at, err = d.Policing(ctx); err != nil {
		return r.found, err
	}
	r.found.Cluster, r.found.Nodes = r.at.Cluster()
	if err := r.rounds(ctx); err != nil {
		return r.found, err
	}
	if len(r.found.Unenforced) == len(directions()) || p.Pods == 0 {
		return r.found, nil
	}
	return r.found, r.fresh(ctx)
}

// visit is a direction with a number of rules.
type visit struct {
	direction kubernetes.Direction
	rules     int
}

func (v visit) String() string { return fmt.Sprintf("%s, %d rules", v.direction, v.rules) }

// rounds makes all visits.
func (p *policing) rounds(ctx context.Context) error {
	order := rand.New(rand.NewPCG(p.Seed, 1))
	var visits []visit
	for _, rules := range p.plan.Rules {
		for _, direction := range directions() {
			visits = append(visits, visit{direction, rules})
		}
	}
	var failed []error
	for round := range p.plan.Rounds {
		for n, i := range order.Perm(len(visits)) {
			v := visits[i]
			if slices.Contains(p.found.Unenforced, v.direction) {
				continue
			}
			p.say("round %d of %d: %v (%d of %d)", round+1, p.plan.Rounds, v, n+1, len(visits))
			err := errors.Join(p.visit(ctx, round, v), p.at.Clear(ctx))
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in round %d: %w", round+1, context.Cause(ctx))
			}
			if err != nil { // measure the others all the same
				err = fmt.Errorf("%v, round %d: %w", v, round+1, err)
				p.found.Failed = append(p.found.Failed, err.Error())
				failed = append(failed, err)
			}
		}
		if len(p.found.Unenforced) == len(directions()) {
			return nil
		}
		p.found.Rounds++
	}
	return errors.Join(failed...)
}

// visit refuses all to one end, allows it again by another policy, takes that back, and removes the first policy.
func (p *policing) visit(ctx context.Context, round int, v visit) error {
	note := func(metric string, of kubernetes.Change, m kubernetes.Moment) {
		p.found.note(PolicyValue{
			Round: round + 1, Direction: v.direction, Rules: v.rules, Metric: metric, Value: m.Middle().Seconds(),
			Resolution: m.Resolution().Seconds(), Answer: of.Took().Seconds(),
		})
	}
	flow, err := p.flow(ctx, kubernetes.FlowNew)
	if err != nil {
		return err
	}
	defer func() { _ = flow.Stop(context.WithoutCancel(ctx)) }() // it ends with its pod
	var established []*kubernetes.Flow
	if v.rules == p.plan.Rules[0] && p.plan.Follow > 0 {
		for _, kind := range lasting() {
			f, err := p.flow(ctx, kind)
			if err != nil {
				return err
			}
			defer func() { _ = f.Stop(context.WithoutCancel(ctx)) }() // likewise
			established = append(established, f)
		}
	}
	deny := kubernetes.Policy{Direction: v.direction, Rules: v.rules}
	allow := kubernetes.Policy{Direction: v.direction, Allow: true}
	change, err := p.at.Create(ctx, deny)
	if err != nil {
		return err
	}
	m, ok, err := flow.Ends(ctx, change, p.plan.Patience)
	if err != nil {
		return err
	}
	if !ok {
		if p.found.enforced(v.direction) {
			return fmt.Errorf("%v after the API's answer to a policy that refuses everything, messages still arrived",
				p.plan.Patience)
		}
		p.found.Unenforced = append(p.found.Unenforced, v.direction)
		p.say("%s: nothing was refused within %v", v.direction, p.plan.Patience)
		return nil
	}
	note(metricDeny, change, m)
	took := change.Took()
	note(metricAPI, change, kubernetes.Moment{From: took, To: took})
	if err := p.follow(ctx, round, v, change, established); err != nil {
		return err
	}
	for _, step := range []struct {
		metric string
		policy kubernetes.Policy
		remove bool
	}{{metricAllow, allow, false}, {metricRevoke, allow, true}, {metricOpen, deny, true}} {
		last, _, err := flow.Last(ctx)
		if err != nil {
			return err
		}
		if step.remove {
			change, err = p.at.Remove(ctx, step.policy)
		} else {
			change, err = p.at.Create(ctx, step.policy)
		}
		if err != nil {
			return err
		}
		if step.metric == metricRevoke {
			m, ok, err = flow.Ends(ctx, change, p.plan.Patience)
		} else {
			m, ok, err = flow.Begins(ctx, change, last, p.plan.Patience)
		}
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%s: no effect within %v", step.metric, p.plan.Patience)
		}
		note(step.metric, change, m)
	}
	return nil
}

// flow begins a flow and waits until it arrives.
func (p *policing) flow(ctx context.Context, kind kubernetes.FlowKind) (*kubernetes.Flow, error) {
	f, err := p.at.Flow(ctx, kind, p.plan.Every)
	if err != nil {
		return nil, err
	}
	return f, f.Steady(ctx)
}

// lasting are the kinds of flows that are established when a policy comes.
func lasting() []kubernetes.FlowKind {
	return []kubernetes.FlowKind{kubernetes.FlowUDP, kubernetes.FlowTCP}
}

// follow watches established flows.
func (p *policing) follow(ctx context.Context, round int, v visit, of kubernetes.Change,
	flows []*kubernetes.Flow,
) error {
	if len(flows) == 0 {
		return nil
	}
	if err := wait(ctx, p.plan.Follow); err != nil {
		return err
	}
	for i, f := range flows {
		m, ended, err := f.Left(ctx, of)
		if err != nil {
			return err
		}
		s := Survival{Round: round + 1, Direction: v.direction, Kind: lasting()[i], WentOn: !ended}
		if ended {
			s.For, s.Resolution = m.Middle().Seconds(), m.Resolution().Seconds()
		}
		p.found.Survivals = append(p.found.Survivals, s)
	}
	return nil
}

const (
	// controls is how many pods on each node no policy is about.
	controls = 2
	// known is how long plugins have to learn of a policy before there are pods that it is about.
	known = 2 * time.Second
)

// fresh makes fresh pods.
func (p *policing) fresh(ctx context.Context) error {
	spec := kubernetes.FreshSpec{Pods: controls, Every: p.plan.Every, Life: p.plan.Life + p.plan.Late}
	for spec.Node = range p.found.Nodes {
		p.say("fresh pods without a policy: %d on node %s", spec.Pods, p.found.Nodes[spec.Node])
		list, err := p.at.Fresh(ctx, spec)
		if err != nil {
			return p.ended(ctx, err)
		}
		p.found.Controls = append(p.found.Controls, list...)
	}
	for _, n := range p.found.Controls {
		if n.Egress.Arrived == 0 || n.Ingress.Arrived == 0 {
			return fmt.Errorf("pod %q on node %s: %d datagrams from it and %d to it arrived, although no policy is about it",
				n.Pod, n.Node, n.Egress.Arrived, n.Ingress.Arrived)
		}
	}
	protect := func(ctx context.Context) error {
		for _, direction := range directions() {
			if _, err := p.at.Create(ctx, kubernetes.Policy{Direction: direction, Fresh: true}); err != nil {
				return err
			}
		}
		return nil
	}
	if p.plan.Late == 0 {
		if err := errors.Join(protect(ctx), wait(ctx, known)); err != nil {
			return p.ended(ctx, err)
		}
	} else {
		spec.Running = func(ctx context.Context) error {
			if err := wait(ctx, p.plan.Late); err != nil {
				return err
			}
			return protect(ctx)
		}
	}
	defer func() { _ = p.at.Clear(ctx) }() // policies go with the scouts
	spec.Selected = true
	for n := 0; len(p.found.Births) < p.plan.Pods; n++ {
		spec.Pods, spec.Node = min(p.plan.Batch, p.plan.Pods-len(p.found.Births)), n%len(p.found.Nodes)
		p.say("fresh pods: %d on node %s (%d of %d done)", spec.Pods, p.found.Nodes[spec.Node], len(p.found.Births),
			p.plan.Pods)
		list, err := p.at.Fresh(ctx, spec)
		if p.plan.Late > 0 {
			err = errors.Join(err, p.at.Clear(ctx))
		}
		if err != nil {
			return p.ended(ctx, err)
		}
		p.found.Births = append(p.found.Births, list...)
	}
	return nil
}

// ended returns why fresh pods were not measured.
func (p *policing) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d of %d fresh pods: %w", len(p.found.Births), p.plan.Pods, context.Cause(ctx))
	}
	err = fmt.Errorf("fresh pods: %w", err)
	p.found.Failed = append(p.found.Failed, err.Error())
	return err
}

// Metrics of the study.
const (
	metricDeny   = "deny_time"
	metricAllow  = "allow_time"
	metricRevoke = "revoke_time"
	metricOpen   = "open_time"
	metricAPI    = "answer_time"
)

// PolicyMetrics are the metrics of the study, in the order of its tables.
func PolicyMetrics() []Metric {
	second := func(name, summary string) Metric {
		return Metric{Name: name, Unit: measure.UnitSecond, Summary: summary}
	}
	return []Metric{
		second(metricDeny, "from the API's answer to a policy that refuses everything until new flows are refused"),
		second(metricAllow, "from the API's answer to a second policy that allows the flow until new flows pass"),
		second(metricRevoke, "from the API's answer to its removal until new flows are refused again"),
		second(metricOpen, "from the API's answer to the removal of the first policy until new flows pass"),
		second(metricAPI, "from the request to make the first policy until the API's answer"),
	}
}
