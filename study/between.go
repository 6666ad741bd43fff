package study

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
)

// A BetweenPlan says what the study of carriers between hosts measures. A carrier is a tunnel or an encryption.
type BetweenPlan struct {
	// Carriers are the carriers to measure; if empty, all that this machine supports.
	Carriers []stack.Choice
	// Hosts are the numbers of hosts of labs. Measurements that need packets use the first number.
	Hosts []int
	// Rounds is how often all carriers are visited, in a new random order each time.
	Rounds int
	// Idle is how long no packet is sent before the first packet after an idle time.
	Idle time.Duration
	// Load is the time around a renewal of keys that is evaluated, and the length of the load without a renewal.
	Load time.Duration
	// Quiet is how long the programs are observed while nothing happens.
	Quiet time.Duration
	// Renewals is how often keys are renewed under load in each round.
	Renewals int
	// Only are the items to measure, see [Items]; if empty, all.
	Only []string
}

// DefaultBetweenPlan is the plan behind docs/between-costs.md.
func DefaultBetweenPlan() BetweenPlan {
	return BetweenPlan{
		Hosts: []int{2, 4, 8}, Rounds: 3, Idle: 5 * time.Second, Load: 2 * time.Second, Quiet: 3 * time.Second, Renewals: 1,
	}
}

// The items of the study.
const (
	ItemSetup   = "setup"
	ItemFirst   = "first"
	ItemIdle    = "idle"
	ItemRekey   = "rekey"
	ItemRestart = "restart"
	ItemUse     = "use"
)

// Items lists the items of the study, in order.
func Items() []string {
	return []string{ItemSetup, ItemFirst, ItemIdle, ItemRekey, ItemRestart, ItemUse}
}

// Limits of a plan.
const (
	mostHosts, mostRounds = 32, 1000
	mostTime              = 10 * time.Minute
	leastTime             = 100 * time.Millisecond
)

// Check returns an error if the plan is not valid.
func (p BetweenPlan) Check() error {
	if len(p.Hosts) == 0 {
		return fmt.Errorf("invalid value for --hosts: none is given (valid: 2 to %d, such as 2,4,8)", mostHosts)
	}
	for _, n := range p.Hosts {
		if n < 2 || n > mostHosts {
			return fmt.Errorf("invalid value %d for --hosts (valid: 2 to %d)", n, mostHosts)
		}
	}
	for _, n := range []struct {
		flag  string
		value int
		most  int
	}{{"rounds", p.Rounds, mostRounds}, {"renewals", p.Renewals, 100}} {
		if n.value < 1 || n.value > n.most {
			return fmt.Errorf("invalid value %d for --%s (valid: 1 to %d)", n.value, n.flag, n.most)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"idle", p.Idle}, {"load", p.Load}, {"quiet", p.Quiet}} {
		if d.value < leastTime || d.value > mostTime {
			return fmt.Errorf("invalid value %v for --%s (valid: %v to %v)", d.value, d.flag, leastTime, mostTime)
		}
	}
	for _, item := range p.Only {
		if !slices.Contains(Items(), item) {
			return fmt.Errorf("invalid value %q for --only (valid: %s)", item, strings.Join(Items(), ", "))
		}
	}
	return nil
}

func (p BetweenPlan) wants(item string) bool {
	return len(p.Only) == 0 || slices.Contains(p.Only, item)
}

// Direct is the baseline: the name of labs without a carrier, in which hosts route to each other.
const Direct = "direct"

// between is a run of the study.
type between struct {
	*Options
	plan       BetweenPlan
	costs      *Costs
	deployment deploy.Deployment
	began      time.Time
	seed       uint64
}

// carried is a carrier under study; the zero value stands for no carrier.
type carried struct {
	name   string
	choice []stack.Choice
}

// Between measures what tunnels and encryptions cost in addition to the cost of each packet. After an error or an
// interrupt, it returns the error with the values measured until then.
func (o *Options) Between(ctx context.Context, p BetweenPlan) (*Costs, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	b := &between{Options: o, plan: p, costs: &Costs{Plan: p}, deployment: o.Open(), began: time.Now(), seed: o.Seed}
	carriers, err := b.carriers(ctx)
	if err == nil {
		err = b.rounds(ctx, carriers)
	}
	return b.costs, errors.Join(err, b.deployment.Close())
}

// rounds visits all carriers.
func (b *between) rounds(ctx context.Context, carriers []carried) error {
	order := rand.New(rand.NewPCG(b.Seed, 1))
	var failed []error
	for round := range b.plan.Rounds {
		for n, i := range order.Perm(len(carriers)) {
			c := carriers[i]
			b.say("round %d of %d: %s (%d of %d)", round+1, b.plan.Rounds, c.name, n+1, len(carriers))
			err := b.visit(ctx, round, c)
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in round %d: %w", round+1, context.Cause(ctx))
			}
			if err != nil { // measure the others all the same
				b.costs.warn("%s, round %d: %v", c.name, round+1, err)
				failed = append(failed, fmt.Errorf("%s, round %d: %w", c.name, round+1, err))
			}
		}
		b.costs.Rounds++
	}
	return errors.Join(failed...)
}

// carriers returns direct routing and the carriers of the plan. A carrier that was not asked for by name is left out if
// the machine lacks something.
func (b *between) carriers(ctx context.Context) ([]carried, error) {
	list := []carried{{name: Direct}}
	chosen := b.plan.Carriers
	if len(chosen) == 0 {
		for _, kind := range b.Parts.Kinds {
			for _, part := range kind.Parts() {
				if _, ok := part.Value.(network.Carrier); !ok {
					continue
				}
				c, err := b.Parts.Kinds.Choose(kind.Describe().Name, part.Name, nil)
				if err != nil {
					return nil, err
				}
				chosen = append(chosen, c)
			}
		}
	}
	for _, c := range chosen {
		list = append(list, carried{c.ID(), []stack.Choice{c}})
	}
	specs := make([]deploy.Spec, len(list))
	for i, c := range list {
		var err error
		if specs[i], err = b.spec(c, 2); err != nil {
			return nil, err
		}
	}
	refused, err := b.deployment.Check(ctx, specs)
	if err != nil {
		return nil, err
	}
	var able []carried
	for i, c := range list {
		switch {
		case refused[i] == nil:
			able = append(able, c)
			b.costs.Carriers = append(b.costs.Carriers, c.name)
		case len(b.plan.Carriers) > 0 || i == 0:
			return nil, fmt.Errorf("%s: %w", c.name, refused[i])
		default:
			b.costs.skip(c.name, "", refused[i])
		}
	}
	return able, nil
}

// spec describes a lab with a container on each host; the first two containers talk.
func (b *between) spec(c carried, hosts int) (deploy.Spec, error) {
	n, err := b.Parts.Kinds.Choose("network", Different, nil)
	if err != nil {
		return deploy.Spec{}, err
	}
	all, err := b.Parts.Kinds.Complete(append(stack.Stack{n}, c.choice...))
	if err != nil {
		return deploy.Spec{}, err
	}
	b.seed++
	lab := network.NewLab(hosts, mtu)
	lab.Seed = b.seed
	for i := range lab.Hosts {
		lab.Hosts[i].Containers = []network.Container{{Name: fmt.Sprintf("c%d", i+1)}}
	}
	return deploy.Spec{
		ID: fmt.Sprintf("%s/%d hosts", c.name, hosts), Mark: fmt.Sprintf("study/%d", b.seed), Stack: all, Net: lab,
		Pairs:    []network.Pair{{Source: network.Spot{Host: 0}, Sink: network.Spot{Host: 1}}},
		Families: []string{family},
	}, nil
}

const (
	mtu    = 1500
	family = "ipv4"
	// stands is how long a lab may take until it is up.
	stands = 2 * time.Minute
)

// standing is a lab of the study.
type standing struct {
	deploy.Enterable
	hosts []place
	end   func()
}

// place is the part of a host that studies use.
type place interface {
	deploy.Place
	PID() int
	Apply(ctx context.Context, p host.Plan) error
	Report(ctx context.Context) (host.Report, error)
	Times(ctx context.Context) ([]host.StepTime, error)
	Undo(ctx context.Context) error
	Use(ctx context.Context, memory bool) ([]host.ProgramUse, error)
	Kill(ctx context.Context) error
	Withdraw(ctx context.Context, p host.Plan) error
	Restore(ctx context.Context) error
	Rekey(ctx context.Context, stage int) (more bool, err error)
}

// build builds a lab and returns how long that took.
func (b *between) build(ctx context.Context, c carried, hosts int) (_ *standing, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, stands)
	defer cancel()
	spec, err := b.spec(c, hosts)
	if err != nil {
		return nil, 0, err
	}
	return build(ctx, b.deployment, spec, 1)
}

// build builds a lab that has room for this many workers, and returns how long that took.
func build(ctx context.Context, d deploy.Deployment, spec deploy.Spec, workers int) (
	_ *standing, took time.Duration, err error,
) {
	g, err := d.Begin(traffic.Layout{Workers: workers, Pairs: 1, Cells: 1})
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	l, err := g.Build(ctx, spec)
	took = time.Since(began)
	if err != nil {
		return nil, 0, errors.Join(err, g.Close())
	}
	s := &standing{end: func() {
		l.Close()
		_ = g.Close() // its memory goes with it
	}}
	var ok bool
	if s.Enterable, ok = l.(deploy.Enterable); !ok {
		s.end()
		return nil, 0, errors.New("the hosts of its labs cannot be entered from here")
	}
	for _, p := range s.Places()[:len(spec.Net.Hosts)] {
		one, ok := p.(place)
		if !ok {
			s.end()
			return nil, 0, fmt.Errorf("%s cannot be changed from here", p.Name())
		}
		s.hosts = append(s.hosts, one)
	}
	return s, took - l.Waited(), nil
}

// visit measures all items of a carrier once.
func (b *between) visit(ctx context.Context, round int, c carried) error {
	for i, hosts := range b.plan.Hosts {
		if i > 0 && !b.plan.wants(ItemSetup) && !b.plan.wants(ItemUse) {
			break
		}
		if err := b.lab(ctx, round, c, hosts, i == 0); err != nil {
			return fmt.Errorf("with %d hosts: %w", hosts, err)
		}
	}
	return nil
}

func (b *between) lab(ctx context.Context, round int, c carried, hosts int, packets bool) error {
	b.say("%s: building %d hosts", c.name, hosts)
	s, took, err := b.build(ctx, c, hosts)
	if err != nil {
		return err
	}
	defer s.end()
	note := func(metric string, value float64) { b.costs.note(round, c.name, hosts, metric, value) }
	if b.plan.wants(ItemSetup) {
		note(metricSetup, took.Seconds())
	}
	if b.plan.wants(ItemUse) {
		if err := b.use(ctx, s, c, hosts, note); err != nil {
			return err
		}
	}
	if b.plan.wants(ItemSetup) {
		took, err := s.again(ctx)
		if err != nil {
			return err
		}
		note(metricCarrier, took.Seconds())
	}
	if !packets {
		return nil
	}
	return b.exchanges(ctx, s, c, note)
}

// exchanges measures the items that need packets.
func (b *between) exchanges(ctx context.Context, s *standing, c carried, note func(string, float64)) error {
	talk, err := s.talk()
	if err != nil {
		return err
	}
	defer talk.close()
	if err := talk.answered(ctx); err != nil {
		return err
	}
	if b.plan.wants(ItemFirst) {
		if err := b.first(ctx, s, talk, note); err != nil {
			return err
		}
	}
	if b.plan.wants(ItemIdle) {
		b.say("%s: no packet for %v", c.name, b.plan.Idle)
		if err := b.idle(ctx, talk, note); err != nil {
			return err
		}
	}
	if b.plan.wants(ItemRekey) {
		b.say("%s: a packet each %v, and new keys", c.name, pace)
		if err := b.rekey(ctx, s, talk, c, note); err != nil {
			return err
		}
	}
	if b.plan.wants(ItemRestart) {
		b.say("%s: host 2 restarts", c.name)
		return b.restart(ctx, s, talk, note)
	}
	return nil
}

// use observes the programs of the hosts while nothing happens.
func (b *between) use(ctx context.Context, s *standing, c carried, hosts int, note func(string, float64)) error {
	ask := func(memory bool) (cpu time.Duration, bytes int64, programs int, err error) {
		for _, h := range s.hosts {
			list, err := h.Use(ctx, memory)
			if err != nil {
				return 0, 0, 0, err
			}
			for _, u := range list {
				if memory && u.Memory == 0 {
					bytes = -1 // some of it is unknown
				}
				if bytes >= 0 {
					bytes += u.Memory
				}
				cpu += u.CPU
				programs++
			}
		}
		return cpu, bytes, programs, nil
	}
	before, _, programs, err := ask(false)
	if err != nil {
		return err
	}
	if programs == 0 {
		b.costs.skip(c.name, metricMemory, errNoProgram)
		b.costs.skip(c.name, metricIdleCPU, errNoProgram)
		return nil
	}
	began := time.Now()
	if err := wait(ctx, b.plan.Quiet); err != nil {
		return err
	}
	after, _, _, err := ask(false)
	if err != nil {
		return err
	}
	note(metricIdleCPU, (after-before).Seconds()/time.Since(began).Seconds()/float64(hosts))
	_, bytes, _, err := ask(true)
	if err != nil {
		return err
	}
	if bytes < 0 {
		b.costs.skip(c.name, metricMemory, errors.New("the kernel does not show the memory of its programs"))
		return nil
	}
	note(metricMemory, float64(bytes)/float64(hosts))
	return nil
}

var errNoProgram = errors.New("no program carries its packets: what it holds and uses in the kernel is not known")

// first removes the carrier on all hosts and applies it again, as if the hosts had just started. It verifies the
// carrier at the same time, as a lab does when it is built: at that time some carriers repeat requests that a peer
// refused because it was not ready.
func (b *between) first(ctx context.Context, s *standing, t *talk, note func(string, float64)) error {
	if err := s.withdraw(ctx); err != nil {
		return err
	}
	l := t.begin(time.Now())
	began := time.Now()
	err := s.restore(ctx)
	if err == nil {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return s.Verify(ctx) })
		group.Go(func() error { return l.until(ctx, began, patience) })
		err = group.Wait()
	}
	at, _ := l.end().after(began)
	if err != nil {
		return err
	}
	note(metricFirst, at.Sub(began).Seconds())
	return nil
}

// patience is the limit for the time until a packet passes.
const patience = 45 * time.Second

// idle sends nothing for a while, and then a few packets, one at a time.
func (b *between) idle(ctx context.Context, t *talk, note func(string, float64)) error {
	if err := t.answered(ctx); err != nil {
		return err
	}
	if err := wait(ctx, b.plan.Idle); err != nil {
		return err
	}
	const more = 20
	var took []float64
	for range 1 + more {
		d, err := t.once(ctx)
		if err != nil {
			return fmt.Errorf("a packet after %v without any: %w", b.plan.Idle, err)
		}
		took = append(took, d.Seconds())
	}
	next := slices.Sorted(slices.Values(took[1:]))[more/2]
	note(metricIdleFirst, took[0])
	note(metricIdleNext, next)
	note(metricIdleRatio, took[0]/next)
	return nil
}

// rekey renews keys under load and evaluates the time around that. It compares with a load of the same length without a
// renewal.
func (b *between) rekey(ctx context.Context, s *standing, t *talk, c carried, note func(string, float64)) error {
	if !s.Site().Lab.Top().Protected {
		b.costs.skip(c.name, metricRekeyGap, errors.New("it has no keys"))
		return b.steady(ctx, t, b.plan.Load, note)
	}
	renewing, with := s, t
	if other, timed := faster(c); timed { // a clock renews the keys: a lab of its own leaves the comparison without
		var err error
		if renewing, _, err = b.build(ctx, other, b.plan.Hosts[0]); err != nil {
			return err
		}
		defer renewing.end()
		if with, err = renewing.talk(); err != nil {
			return err
		}
		defer with.close()
		if err := with.answered(ctx); err != nil {
			return err
		}
	}
	l := with.begin(time.Now())
	renewed, err := b.renew(ctx, renewing)
	all := l.end()
	if errors.Is(err, errors.ErrUnsupported) {
		b.costs.skip(c.name, metricRekeyGap, err)
		return b.steady(ctx, t, b.plan.Load, note)
	}
	if err != nil {
		return err
	}
	var gap, pause time.Duration
	lost := 0
	for _, at := range renewed {
		seen := all.within(at.Add(-b.plan.Load/2), at.Add(b.plan.Load/2))
		gap, pause, lost = max(gap, seen.gap()), max(pause, seen.pause()), lost+seen.lost()
	}
	note(metricRekeyGap, gap.Seconds())
	note(metricRekeyLost, float64(lost))
	note(metricRekeyPause, pause.Seconds())
	return b.steady(ctx, t, b.plan.Load*time.Duration(b.plan.Renewals), note)
}

// renew renews keys, with time before, between and after the renewals, and returns when the keys were new. Some
// carriers wait for seconds until they may renew keys.
func (b *between) renew(ctx context.Context, s *standing) (renewed []time.Time, err error) {
	err = wait(ctx, b.plan.Load/2)
	for range b.plan.Renewals {
		if err == nil {
			err = s.rekey(ctx)
			renewed = append(renewed, time.Now())
		}
		if err == nil {
			err = wait(ctx, b.plan.Load/2)
		}
	}
	return renewed, err
}

// steady runs a load of this length while nothing happens.
func (b *between) steady(ctx context.Context, t *talk, long time.Duration, note func(string, float64)) error {
	l := t.begin(time.Now())
	err := wait(ctx, long)
	seen := l.end()
	if err != nil {
		return err
	}
	note(metricGap, seen.gap().Seconds())
	note(metricLost, float64(seen.lost()))
	note(metricPause, seen.pause().Seconds())
	return nil
}

// faster returns the carrier with the shortest interval between renewals, if it has a parameter for that.
func faster(c carried) (carried, bool) {
	const parameter, least = "rekey", "2s"
	for i, one := range c.choice {
		if _, ok := one.Params[parameter]; !ok {
			continue
		}
		given := maps.Clone(one.Params)
		given[parameter] = least
		params, err := one.Part.Params.Resolve(one.Part.Name, given)
		if err != nil {
			return c, false
		}
		other := carried{c.name, slices.Clone(c.choice)}
		other.choice[i].Params = params
		return other, true
	}
	return c, false
}

// restart kills the programs of host 2 and applies the steps of its carrier again, while host 1 keeps its state.
func (b *between) restart(ctx context.Context, s *standing, t *talk, note func(string, float64)) error {
	l := t.begin(time.Now())
	err := wait(ctx, settle)
	killed := time.Now()
	if err == nil {
		err = s.withdraw(ctx, 1)
	}
	var restored time.Time
	if err == nil {
		err = s.restore(ctx, 1)
		restored = time.Now()
	}
	if err == nil {
		var group errgroup.Group
		group.Go(func() error {
			_ = s.hosts[1].Verify(ctx) // host 1 may still have its old state: packets show when they pass
			return nil
		})
		group.Go(func() error { return l.until(ctx, restored, patience) })
		err = group.Wait()
	}
	if err == nil {
		err = wait(ctx, settle)
	}
	seen := l.end()
	if err != nil {
		return fmt.Errorf("after host 2 had restarted: %w", err)
	}
	note(metricBack, seen.longest(killed).Seconds())
	note(metricBackLost, float64(seen.lost()))
	return nil
}

// settle is how long packets pass before and after a change.
const settle = 200 * time.Millisecond

// wait waits for d, or until the context ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
