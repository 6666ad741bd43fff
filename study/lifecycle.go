package study

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/stack"
)

// A LifecyclePlan says what the study of the life of containers measures.
type LifecyclePlan struct {
	// Runtimes are the runtimes to measure; if empty, all that this machine supports.
	Runtimes []stack.Choice
	// Network joins their containers; the zero value is the network [Different].
	Network stack.Choice
	// Pairs are the numbers of pairs of a lab, which has one host. With 0 it has one container, and its host answers.
	Pairs []int
	// Rounds is how often every runtime is visited with every number of pairs, in a new random order each time.
	Rounds int
}

// DefaultLifecyclePlan is a plan of some minutes. That of docs/lifecycle.md also has 10 pairs.
func DefaultLifecyclePlan() LifecyclePlan { return LifecyclePlan{Pairs: []int{1, 5, 50}, Rounds: 3} }

// mostPairs is the largest number of pairs of a lab: a bridge has room for 1023 ports (BR_MAX_PORTS, net/bridge).
const mostPairs = 500

// Check returns an error if the plan is not valid.
func (p LifecyclePlan) Check() error {
	if len(p.Pairs) == 0 {
		return fmt.Errorf("invalid value for --pairs: none is given (valid: 0 to %d, such as 1,5,50)", mostPairs)
	}
	for i, n := range p.Pairs {
		if n < 0 || n > mostPairs {
			return fmt.Errorf("invalid value %d for --pairs (valid: 0 to %d)", n, mostPairs)
		}
		if slices.Contains(p.Pairs[:i], n) {
			return fmt.Errorf("invalid value for --pairs: %d is given twice", n)
		}
	}
	if p.Rounds < 1 || p.Rounds > mostRounds {
		return fmt.Errorf("invalid value %d for --rounds (valid: 1 to %d)", p.Rounds, mostRounds)
	}
	return nil
}

// life is a run of the study.
type life struct {
	*Options
	plan       LifecyclePlan
	lives      *Lives
	deployment deploy.Deployment
	seed       uint64
}

// subject is a stack under study.
type subject struct {
	name  string
	stack stack.Stack
}

// Lifecycle measures what it takes to make and to remove containers. After an error or an interrupt, it returns the
// error with the values measured until then.
func (o *Options) Lifecycle(ctx context.Context, p LifecyclePlan) (*Lives, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	l := &life{Options: o, plan: p, lives: &Lives{Plan: p}, deployment: o.Open(), seed: o.Seed}
	subjects, err := l.subjects(ctx)
	if err == nil {
		err = l.rounds(ctx, subjects)
	}
	return l.lives, errors.Join(err, l.deployment.Close())
}

// subjects returns the stacks of the plan. A runtime that was not asked for by name is left out if the machine lacks
// something.
func (l *life) subjects(ctx context.Context) ([]subject, error) {
	joined := l.plan.Network
	if joined.Part.Name == "" {
		var err error
		if joined, err = l.Parts.Kinds.Choose("network", Different, nil); err != nil {
			return nil, err
		}
	}
	chosen := l.plan.Runtimes
	if len(chosen) == 0 {
		kind, err := l.Parts.Kinds.Find("runtime")
		if err != nil {
			return nil, err
		}
		for _, part := range kind.Parts() {
			c, err := l.Parts.Kinds.Choose("runtime", part.Name, nil)
			if err != nil {
				return nil, err
			}
			chosen = append(chosen, c)
		}
	}
	var list []subject
	var specs []deploy.Spec
	for _, c := range chosen {
		all, err := l.Parts.Kinds.Complete(stack.Stack{joined, c})
		if err != nil {
			return nil, err
		}
		s := subject{c.ID(), all}
		list, specs = append(list, s), append(specs, l.spec(s, 1))
	}
	refused, err := l.deployment.Check(ctx, specs)
	if err != nil {
		return nil, err
	}
	var able []subject
	for i, s := range list {
		switch {
		case refused[i] == nil:
			able = append(able, s)
			l.lives.Runtimes = append(l.lives.Runtimes, s.name)
		case len(l.plan.Runtimes) > 0:
			return nil, fmt.Errorf("%s: %w", s.name, refused[i])
		default:
			l.lives.Missing = append(l.lives.Missing, Unmeasured{s.name, refused[i].Error()})
		}
	}
	if len(able) == 0 {
		return nil, errors.New("no runtime makes containers here: nettoll doctor says what is missing")
	}
	return able, nil
}

// in returns the number of containers of a lab.
func in(pairs int) int { return max(1, 2*pairs) }

// spec describes a lab of one host.
func (l *life) spec(s subject, pairs int) deploy.Spec {
	l.seed++
	lab := network.NewLab(1, mtu)
	lab.Seed = l.seed
	spec := deploy.Spec{
		ID: fmt.Sprintf("%s/%d", s.name, pairs), Mark: fmt.Sprintf("study/%d", l.seed), Stack: s.stack,
		Families: []string{family},
	}
	at := &lab.Hosts[0].Containers
	for n := range in(pairs) {
		i, side := n/2, n%2
		*at = append(*at, network.Container{
			Name: fmt.Sprintf("%s%d", []string{"src", "snk"}[side], i), Index: n,
			Ports: network.Ports{First: portOf(i, side), Last: portOf(i, side)},
		})
	}
	for i := range pairs {
		spec.Pairs = append(spec.Pairs, network.Pair{
			Source: network.Spot{Container: 2 * i}, Sink: network.Spot{Container: 2*i + 1},
		})
	}
	spec.Net = lab
	return spec
}

// portOf is the port of a socket of a pair. No two are equal, because containers may share a namespace.
func portOf(pair, side int) uint16 { return uint16(port + 2*pair + side) }

// rounds visits all runtimes with all numbers of pairs.
func (l *life) rounds(ctx context.Context, subjects []subject) error {
	order := rand.New(rand.NewPCG(l.Seed, 1))
	all := len(subjects) * len(l.plan.Pairs)
	var failed []error
	for round := range l.plan.Rounds {
		for n, i := range order.Perm(all) {
			s, pairs := subjects[i%len(subjects)], l.plan.Pairs[i/len(subjects)]
			what := fmt.Sprintf("%s, %s", s.name, containers(in(pairs)))
			l.say("round %d of %d: %s (%d of %d)", round+1, l.plan.Rounds, what, n+1, all)
			err := l.visit(ctx, round, s, pairs)
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in round %d: %w", round+1, context.Cause(ctx))
			}
			if err != nil { // measure the others all the same
				err = fmt.Errorf("%s, round %d: %w", what, round+1, err)
				l.lives.Failed = append(l.lives.Failed, err.Error())
				failed = append(failed, err)
			}
		}
		l.lives.Rounds++
	}
	return errors.Join(failed...)
}

func containers(n int) string {
	if n == 1 {
		return "1 container"
	}
	return fmt.Sprintf("%d containers", n)
}

// visit makes and removes the containers of a lab.
func (l *life) visit(ctx context.Context, round int, of subject, pairs int) (err error) {
	n := in(pairs)
	patient, cancel := context.WithTimeout(ctx, stands+time.Duration(n)*each)
	defer cancel()
	spec := l.spec(of, pairs)
	note := func(metric string, value float64) { l.lives.note(round, of.name, n, metric, value) }
	began := time.Now()
	s, _, err := build(patient, l.deployment, spec, n)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended {
			s.end()
		}
	}()
	workers := time.Now()
	if err := s.workers(patient, spec); err != nil {
		return err
	}
	answers := time.Now()
	if err := s.answer(patient, spec.Pairs); err != nil {
		return err
	}
	done := time.Now()
	first := done.Sub(began) - s.Waited()
	h := s.hosts[0]
	times, err := h.Times(patient)
	if err != nil {
		return err
	}
	steps, err := sorted(spec.Stack, s.Site(), h.Plan())
	if err != nil {
		return err
	}
	applied := func(k kind) time.Duration {
		return spanned(steps[k], times, func(t host.StepTime) host.Span { return t.Apply })
	}
	perContainer := func(d time.Duration) float64 { return d.Seconds() / float64(n) }
	started, answered := answers.Sub(workers), done.Sub(answers)
	note(metricByte, first.Seconds())
	note(metricContainer, perContainer(applied(ofContainer)))
	note(metricNetwork, perContainer(applied(ofNetwork)))
	note(metricWorker, perContainer(started))
	note(metricAnswer, perContainer(answered))
	known := applied(ofDaemon) + applied(ofContainer) + applied(ofNetwork) + started + answered
	note(metricRest, (first - known).Seconds())
	if len(steps[ofDaemon]) > 0 {
		note(metricDaemon, applied(ofDaemon).Seconds())
	}
	report, err := h.Report(patient)
	if err != nil {
		return err
	}
	beside, inside, err := memory(h.PID(), report.Joined)
	if err != nil {
		return err
	}
	if len(report.Joined) == 0 { // else that of a daemon that others use, too
		note(metricMemory, float64(beside)/float64(n))
	}
	note(metricWorkerMemory, float64(inside)/float64(n))
	alone, gone, err := s.alone(patient, spec.Stack)
	if err != nil {
		return err
	}
	if alone > 0 {
		together, err := s.together(patient, spec.Stack, n)
		if err != nil {
			return err
		}
		note(metricCommand, alone)
		note(metricCommands, together)
		note(metricAdded, perContainer(first-applied(ofDaemon))-together)
		note(metricRemovalAlone, gone)
	}
	l.say("%s: removing %s", of.name, containers(n))
	removing := time.Now()
	if h.Plan().Outlives() { // the host does it; otherwise they go with it
		if err := h.Undo(patient); err != nil {
			return err
		}
	}
	undone := time.Now()
	if times, err = h.Times(patient); err != nil {
		return err
	}
	took := undone.Sub(removing) - spanned(steps[ofDaemon], times, func(t host.StepTime) host.Span { return t.Remove })
	closing := time.Now()
	s.end()
	ended = true
	note(metricRemoval, perContainer(took+time.Since(closing)))
	return nil
}

// each is how long a container may take, in addition to [stands].
const each = 3 * time.Second

// workers starts the workers of a lab as a run does: in each container, or one for all sources and one for all sinks.
func (s *standing) workers(ctx context.Context, spec deploy.Spec) error {
	specs := []host.WorkerSpec{{ID: "source@host1"}, {ID: "sink@host1"}}[:min(2, len(spec.Net.Hosts[0].Containers))]
	if runtime.Inside(spec.Stack) {
		specs = nil
		for _, c := range spec.Net.Hosts[0].Containers {
			specs = append(specs, host.WorkerSpec{ID: c.Name + "@host1", Container: c.Name})
		}
	}
	for _, w := range specs {
		if _, err := s.Start(ctx, 1, w); err != nil {
			return err
		}
	}
	return nil
}

// answer waits, for one pair after another, until a packet has passed there and back. Without a pair, the only
// container sends it to its host.
func (s *standing) answer(ctx context.Context, pairs []network.Pair) error {
	if len(pairs) == 0 {
		t, err := s.toHost(network.Spot{}, portOf(0, 0))
		if err != nil {
			return err
		}
		defer t.close()
		return t.repeat(ctx)
	}
	for i, p := range pairs {
		t, err := s.between(p, portOf(i, 0), portOf(i, 1))
		if err != nil {
			return err
		}
		err = t.repeat(ctx)
		t.close()
		if err != nil {
			return fmt.Errorf("pair %d: %w", i+1, err)
		}
	}
	return nil
}

// repeat sends a packet again and again until one is answered.
func (t *talk) repeat(ctx context.Context) error {
	const again = 10 * time.Millisecond
	for end := time.Now().Add(patience); ; {
		t.send()
		_, _, err := t.receive(time.Now().Add(again))
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case time.Now().After(end):
			return fmt.Errorf("no answer within %v", patience)
		}
	}
}

// kind is what a step is for.
type kind int

const (
	ofDaemon kind = iota // of the runtime, once for a host
	ofContainer
	ofNetwork
	kinds
)

// sorted returns the steps of a host by what they are for, each as its place in the plan.
func sorted(s stack.Stack, site *network.Site, p host.Plan) (steps [kinds][]int, err error) {
	r, params, ok := stack.PartOf[runtime.Runtime](s)
	if !ok {
		return steps, errors.New("a stack without a runtime")
	}
	made, err := r.Containers(runtime.ContainersOf(site, 0), params)
	if err != nil {
		return steps, err
	}
	text := func(s host.Step) string { return s.Kind() + ": " + s.String() }
	own, makes := map[string]bool{}, map[string]func() host.Step{}
	if r, ok := r.(host.Stepper); ok {
		makes = r.Steps()
	}
	for _, step := range made {
		own[text(step)] = true
	}
	for i, step := range p.Steps {
		_, one := step.(host.FirstUndone)
		k := ofNetwork
		switch {
		case one && (own[text(step)] || makes[step.Kind()] != nil): // made by itself, or with its link
			k = ofContainer
		case own[text(step)]:
			k = ofDaemon
		}
		steps[k] = append(steps[k], i)
	}
	return steps, nil
}

// spanned returns how long some steps took. Time in which several were at work counts once.
func spanned(steps []int, times []host.StepTime, of func(host.StepTime) host.Span) (all time.Duration) {
	var spans []host.Span
	for _, i := range steps {
		spans = append(spans, of(times[i]))
	}
	slices.SortFunc(spans, func(a, b host.Span) int { return int(a.Began - b.Began) })
	end := int64(0)
	for _, s := range spans {
		to := s.Began + int64(s.Took)
		all += time.Duration(max(0, to-max(end, s.Began)))
		end = max(end, to)
	}
	return all
}

// commands is how often the command of a runtime is given in a visit.
const commands = 3

// alone gives the command of the runtime on the host of the lab, one after another, and removes what that has made, one
// after another, too. It returns how long the command and a removal take, in seconds; 0 if the runtime has none.
func (s *standing) alone(ctx context.Context, of stack.Stack) (made, removed float64, err error) {
	r, params, ok := stack.PartOf[runtime.Commanding](of)
	if !ok {
		return 0, 0, nil
	}
	var all host.Plan
	var took []float64
	for i := range commands {
		one := host.Plan{Steps: []host.Step{r.Alone(fmt.Sprintf("alone%d", i), params)}}
		if err := s.hosts[0].Apply(ctx, one); err != nil {
			return 0, 0, err
		}
		report, err := s.hosts[0].Report(ctx)
		if err != nil {
			return 0, 0, err
		}
		all.Steps, took = append(all.Steps, one.Steps...), append(took, report.Metrics[runtime.CommandTime])
	}
	began := time.Now()
	err = s.hosts[0].Withdraw(ctx, all)
	return measure.Median(took), time.Since(began).Seconds() / commands, err
}

// together gives as many commands as a lab has containers, but at most a few for each CPU. The host has as many at work
// at a time as containers of the lab (see [host.Concurrent]). It returns how long all of them take, divided by their
// number, in seconds.
func (s *standing) together(ctx context.Context, of stack.Stack, containers int) (float64, error) {
	r, params, ok := stack.PartOf[runtime.Commanding](of)
	if !ok {
		return 0, nil
	}
	const each = 2
	var all host.Plan
	for i := range min(containers, each*max(2, goruntime.NumCPU())) {
		all.Steps = append(all.Steps, r.Alone(fmt.Sprintf("together%d", i), params))
	}
	if err := s.hosts[0].Apply(ctx, all); err != nil {
		return 0, err
	}
	times, err := s.hosts[0].Times(ctx)
	if err != nil {
		return 0, err
	}
	n := len(all.Steps)
	applied := make([]int, n)
	for i := range applied {
		applied[i] = len(times) - n + i
	}
	took := spanned(applied, times, func(t host.StepTime) host.Span { return t.Apply })
	return took.Seconds() / float64(n), s.hosts[0].Withdraw(ctx, all)
}

// memory returns the memory (PSS) of a host's programs without its agent: of workers, and of all others, which stay
// beside the containers. The host's first process has this PID, and the joined ones are not below it, see
// [host.Kernel.Joined].
func memory(first int, joined []int) (beside, workers int64, err error) {
	all, err := procfs.ReadPrograms()
	if err != nil {
		return 0, 0, err
	}
	for pid, p := range all {
		if p.Ended || !descends(all, pid, first) && !slices.Contains(joined, pid) {
			continue
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // it has ended
		}
		role := roleOf(string(line))
		if role == roleHost {
			continue
		}
		bytes, err := procfs.Proportional(pid)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return 0, 0, err
		case role == roleWorker:
			workers += bytes
		default:
			beside += bytes
		}
	}
	return beside, workers, nil
}

// descends says whether a process is below another one.
func descends(all map[int]procfs.Program, pid, ancestor int) bool {
	for steps := 0; pid > 0 && steps <= len(all); steps++ {
		if pid = all[pid].Parent; pid == ancestor {
			return true
		}
	}
	return false
}

// role is what a process of a host is for.
type role int

const (
	roleBeside role = iota // a daemon, a shim or a monitor
	roleHost               // the host itself
	roleWorker
)

// roleOf reads a command line, whose arguments end in zero bytes.
func roleOf(line string) role {
	args := strings.Split(line, "\x00")
	if len(args) < 2 || filepath.Base(args[0]) != "nettoll" {
		return roleBeside
	}
	switch args[1] {
	case "host-init", "agent":
		return roleHost
	case "worker":
		return roleWorker
	}
	return roleBeside
}
