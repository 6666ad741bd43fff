package labtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/traffic"
)

// Fake is a deployment that does not touch the kernel. Its labs are plans, its workers answer at once with made-up
// samples, and a trial takes no time. The zero value has no faults. Set its fields before use.
type Fake struct {
	// Refuses holds the reasons why labs cannot be built, by ID, for [deploy.Deployment.Check].
	Refuses map[string]error
	// Installed, if not nil, returns the version of a program on a host, from 1; "" if it is not installed there. nil:
	// every host has every program.
	Installed func(host int, program string) string
	// Fails, if not nil, returns why a lab cannot be built the nth time, from 1; nil if it can.
	Fails func(lab string, n int) error
	// Waits, if not nil, returns what the building of a lab waits for the nth time, from 1, until its time is up; "" if it
	// does not.
	Waits func(lab string, n int) string
	// During, if not nil, returns what happens during the nth trial of all, from 1.
	During func(n int) Fault
	// Drifts, if not nil, returns what the nth verification of a lab, from 1, finds; nil for nothing. [Ended] happens
	// meanwhile.
	Drifts func(lab string, n int) error
	// Changes, if not nil, returns what the nth audit of a lab, from 1, finds.
	Changes func(lab string, n int) []string
	// On are the names of the machines, "" for that of this process; nil means that machine alone. The hosts are
	// dealt out to them in turn. Facts, if not nil, returns what the facts about a machine are.
	On    []string
	Facts func(machine string) map[string]any
	// Sleepless is the reason why CPUs cannot be kept awake; nil if they can. Asleep is the share of the time for which
	// they sleep then.
	Sleepless error
	Asleep    float64
	// Blind is the reason why no probe can be loaded; nil if they can. A loaded probe counts 1 in each trial in which it
	// is switched on.
	Blind error

	mu     sync.Mutex
	builds map[string]int
	stand  []*lab
	trials int
	began  int // workers started, in all labs
	awake  int // callers of Awake that have not ended it yet
	rises  int // calls of Awake
	audits map[string]int
	asked  map[string]int // verifications, by lab
	probed *switched      // nil: no probe is loaded
}

// Ended is a drift whose cause is that a program of the lab has ended, as Died then says.
type Ended string

// Error says which one.
func (e Ended) Error() string { return string(e) }

// A Fault is a fault during a trial. The zero value is no fault.
type Fault struct {
	Lab    string // the lab with the fault, by ID
	Worker int    // the number of the lab's worker, in the order in which they were started
	Kind   FaultKind
}

// FaultKind is a kind of [Fault].
type FaultKind int

// Faults.
const (
	None    FaultKind = iota
	Dies              // the worker ends
	Hangs             // the worker does not return from the trial
	HostEnd           // a host of the lab ends, and its workers with it
)

var (
	_ deploy.Deployment = (*Fake)(nil)
	_ deploy.Watched    = (*lab)(nil)
)

// CPUs returns two CPUs.
func (f *Fake) CPUs(context.Context) ([]int, error) { return []int{0, 1}, nil }

// names returns the names of the machines.
func (f *Fake) names() []string {
	if f.On == nil {
		return []string{""}
	}
	return f.On
}

// Machines returns the machines that have hosts.
func (f *Fake) Machines(_ context.Context, hosts int) ([]deploy.Machine, error) {
	names := f.names()
	list := make([]deploy.Machine, min(hosts, len(names)))
	for i := range list {
		list[i] = deploy.Machine{Name: names[i], Facts: map[string]any{"kernel": "none", "cpus": 2}}
		if f.Facts != nil {
			list[i].Facts = f.Facts(names[i])
		}
	}
	for i := range hosts {
		m := &list[i%len(list)]
		m.Hosts = append(m.Hosts, network.Host{Index: i + 1}.Name())
	}
	return list, nil
}

// Check returns the errors in Refuses.
func (f *Fake) Check(_ context.Context, labs []deploy.Spec) ([]error, error) {
	answers := make([]error, len(labs))
	for i, l := range labs {
		answers[i] = f.Refuses[l.ID]
	}
	return answers, nil
}

// Programs answers as Installed does.
func (f *Fake) Programs(_ context.Context, wanted []deploy.Wanted) ([]deploy.Found, error) {
	answers := make([]deploy.Found, len(wanted))
	for i, w := range wanted {
		version := "1.0"
		if f.Installed != nil {
			version = f.Installed(w.Host, w.Program)
		}
		if !w.Unasked {
			answers[i].Version = version
		}
		if version == "" {
			answers[i].Err = w.NotInstalled()
			if len(f.On) > 1 {
				answers[i].Err = fmt.Errorf("host %q: %w", network.Host{Index: w.Host}.Name(), answers[i].Err)
			}
		}
	}
	return answers, nil
}

// Watch reports that no machine was busy.
func (f *Fake) Watch() (func() []deploy.Load, error) {
	machines := f.names()
	return func() []deploy.Load {
		loads := make([]deploy.Load, len(machines))
		for i, name := range machines {
			loads[i] = deploy.Load{Machine: name, CPU: map[string]float64{"idle": 2}}
		}
		return loads
	}, nil
}

// Awake counts its calls.
func (f *Fake) Awake() (func() (float64, error), error) {
	if f.Sleepless != nil {
		return nil, f.Sleepless
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awake++
	f.rises++
	return func() (float64, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.awake--
		return f.Asleep, nil
	}, nil
}

// Awakened returns how often the CPUs were kept awake, and whether they still are.
func (f *Fake) Awakened() (times int, still bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rises, f.awake > 0
}

// switched is a loaded probe.
type switched struct {
	fake *Fake
	on   bool
}

// LoadProbe loads nothing.
func (f *Fake) LoadProbe(probe.Probe) (deploy.LoadedProbe, error) {
	if f.Blind != nil {
		return nil, f.Blind
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probed = &switched{fake: f}
	return f.probed, nil
}

func (s *switched) turn(on bool) error {
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	s.on = on
	return nil
}

// On has trials counted.
func (s *switched) On() error { return s.turn(true) }

// Off has them not counted any more.
func (s *switched) Off() error { return s.turn(false) }

// Close removes the probe.
func (s *switched) Close() error {
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	if s.fake.probed == s {
		s.fake.probed = nil
	}
	return nil
}

// Probed reports whether a probe is loaded.
func (f *Fake) Probed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.probed != nil
}

// counted returns what a probe counts in a trial.
func (f *Fake) counted() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.probed != nil && f.probed.on {
		return 1
	}
	return 0
}

// Begin begins a generation.
func (f *Fake) Begin(traffic.Layout) (deploy.Generation, error) { return &generation{fake: f}, nil }

// Close does nothing.
func (f *Fake) Close() error { return nil }

// Built returns how often each lab was built.
func (f *Fake) Built() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.builds)
}

// Left returns the labs that are not closed.
func (f *Fake) Left() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for _, l := range f.stand {
		ids = append(ids, l.spec.ID)
	}
	return ids
}

// Workers returns how many workers were started.
func (f *Fake) Workers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.began
}

// generation is a set of labs with one turn, which is the generation itself.
type generation struct{ fake *Fake }

// Turns returns the turn.
func (g *generation) Turns() traffic.Turns { return turns{g.fake} }

// Close does nothing.
func (g *generation) Close() error { return nil }

// Build plans a lab.
func (g *generation) Build(ctx context.Context, s deploy.Spec) (deploy.Lab, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	plan, err := s.Plan()
	if err != nil {
		return nil, err
	}
	f := g.fake
	n := f.counts(s.ID)
	if f.Waits != nil {
		if what := f.Waits(s.ID, n); what != "" {
			<-ctx.Done()
			return nil, fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Fails != nil {
		if err := f.Fails(s.ID, n); err != nil {
			return nil, err
		}
	}
	l := &lab{fake: f, spec: s, plan: plan, taps: map[int]*host.Tap{}}
	f.stand = append(f.stand, l)
	return l, nil
}

// counts counts that a lab is built, and returns how often it was.
func (f *Fake) counts(lab string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.builds == nil {
		f.builds = map[string]int{}
	}
	f.builds[lab]++
	return f.builds[lab]
}

// turns are trials that take no time.
type turns struct{ fake *Fake }

// SetCell accepts everything.
func (turns) SetCell(int, traffic.CellPlan) error { return nil }

// Files returns none.
func (turns) Files() map[string]*os.File { return nil }

// Close does nothing.
func (turns) Close() error { return nil }

// Run runs every trial, until one has a fault.
func (t turns) Run(ctx context.Context, order []int, _ func(int) int) ([]traffic.Timing, error) {
	timings := make([]traffic.Timing, len(order))
	for i, cell := range order {
		timings[i].Cell = cell
	}
	for i, cell := range order {
		if err := ctx.Err(); err != nil {
			return timings, err
		}
		fault, w := t.fake.trial()
		switch fault.Kind {
		case Dies, HostEnd:
			<-ctx.Done() // the controller notices that its worker is gone
			return timings, ctx.Err()
		case Hangs:
			return timings, &traffic.StalledError{Cell: cell, Missing: []traffic.Seat{{Worker: w.number}}, Opened: true}
		case None:
		}
		timings[i] = traffic.Timing{
			Cell: cell, Done: true, Opened: clock.Now(), Dead: time.Microsecond, Probe: t.fake.counted(),
		}
	}
	return timings, nil
}

// trial counts a trial and returns the fault planned for it.
func (f *Fake) trial() (Fault, *worker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trials++
	if f.During == nil {
		return Fault{}, nil
	}
	fault := f.During(f.trials)
	if fault.Kind == None {
		return fault, nil
	}
	i := slices.IndexFunc(f.stand, func(l *lab) bool { return l.spec.ID == fault.Lab })
	if i < 0 {
		return Fault{}, nil // the lab is closed
	}
	l := f.stand[i]
	w := l.workers[fault.Worker]
	switch fault.Kind {
	case Dies:
		w.end(errors.New("signal: killed"))
	case HostEnd:
		l.died = "the agent of host1 has ended"
		for _, w := range l.workers {
			w.end(errors.New("its host has ended"))
		}
	case None, Hangs:
	}
	return fault, w
}

// lab is a lab that exists only as a plan.
type lab struct {
	fake    *Fake
	spec    deploy.Spec
	plan    deploy.Plan
	workers []*worker
	taps    map[int]*host.Tap // by number of the host
	died    string
	closed  bool
}

// Site returns the site of the plan.
func (l *lab) Site() *network.Site { return l.plan.Site }

// Waited returns 0.
func (l *lab) Waited() time.Duration { return 0 }

// Reports returns an empty report for each host.
func (l *lab) Reports() []host.Report { return make([]host.Report, len(l.spec.Net.Hosts)) }

// Start starts a worker on any host.
func (l *lab) Start(ctx context.Context, on int, s host.WorkerSpec) (host.Worker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if on < 1 || on > len(l.spec.Net.Hosts) {
		return nil, fmt.Errorf("start worker %q: there is no host %d", s.ID, on)
	}
	l.fake.mu.Lock()
	defer l.fake.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("start worker %q: the lab is closed", s.ID)
	}
	w := &worker{id: s.ID, done: make(chan struct{})}
	// a worker that is started again replaces the one that ended
	if i := slices.IndexFunc(l.workers, func(o *worker) bool { return o.id == s.ID }); i >= 0 {
		l.workers[i] = w
	} else {
		l.workers = append(l.workers, w)
	}
	l.fake.began++
	return w, nil
}

// Verify finds what Drifts says.
func (l *lab) Verify(context.Context) error {
	l.fake.mu.Lock()
	defer l.fake.mu.Unlock()
	if l.fake.Drifts == nil {
		return nil
	}
	if l.fake.asked == nil {
		l.fake.asked = map[string]int{}
	}
	l.fake.asked[l.spec.ID]++
	err := l.fake.Drifts(l.spec.ID, l.fake.asked[l.spec.ID])
	if ended, ok := errors.AsType[Ended](err); ok {
		l.died = string(ended)
	}
	return err
}

// Died returns the effect of a fault.
func (l *lab) Died(context.Context) string {
	l.fake.mu.Lock()
	defer l.fake.mu.Unlock()
	return l.died
}

// Logs returns none.
func (l *lab) Logs(context.Context) ([]deploy.Log, error) { return nil, nil }

// Trace returns counters of 0. A tap has seen a packet of full size on each link, as containers send it.
func (l *lab) Trace(_ context.Context, q []host.Question) ([]host.Trace, error) {
	const udp, ethernet = 17, 14
	traces := make([]host.Trace, len(q))
	for i, question := range q {
		if tap := l.taps[i]; tap != nil {
			for _, link := range tap.Links {
				traces[i].Frames = append(traces[i].Frames, host.Frames{
					Link: link, Wire: host.Wire{Family: "ipv4", Protocol: udp, Port: 1}, Count: 1, Marked: 1,
					Longest: ethernet + l.plan.Site.Lab.MTU,
				})
			}
		}
		l.taps[i] = question.Tap
	}
	return traces, nil
}

// Watch does nothing.
func (l *lab) Watch(context.Context, bool) error { return nil }

// Audit says what Changes does.
func (l *lab) Audit(context.Context, bool) ([]deploy.Audit, error) {
	l.fake.mu.Lock()
	defer l.fake.mu.Unlock()
	if l.fake.audits == nil {
		l.fake.audits = map[string]int{}
	}
	l.fake.audits[l.spec.ID]++
	a := deploy.Audit{Host: "host1"}
	if l.fake.Changes != nil {
		a.Changes = l.fake.Changes(l.spec.ID, l.fake.audits[l.spec.ID])
	}
	return []deploy.Audit{a}, nil
}

// Close ends the workers.
func (l *lab) Close() {
	l.fake.mu.Lock()
	defer l.fake.mu.Unlock()
	l.closed = true
	for _, w := range l.workers {
		w.end(nil)
	}
	l.fake.stand = slices.DeleteFunc(l.fake.stand, func(o *lab) bool { return o == l })
}
