package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/rights"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/worker"
	"github.com/nettoll/nettoll/workload"
)

// lab is one stack × placement × pairs as it stands.
type lab struct {
	experiment.Lab
	generation *generation
	spec       deploy.Spec // what the deployment is asked for
	stands     deploy.Lab  // nil before it is built
	workers    []*labWorker
	families   []string      // that its cells use
	uncounted  []string      // workloads of its cells that do not know how many packets they take
	large      bool          // some workload of its cells sends large segments
	congestion []string      // what its workers can set
	took       time.Duration // to build it, without what it waited for others
	enforcedIn time.Duration // until others have enforced its list; 0: it is not known, or nobody else has to
	at         []pairAddresses
	ports      []uint16              // that programs of its workloads listen at besides those of their containers
	mtu        int                   // of its containers
	ways       *proof.Ways           // nil if its network does not say which way packets take
	keeps      bool                  // the frames between its hosts, of proofs
	capture    *host.Capture         // those of the last proof
	idle       []idleUse             // of its programs; nil: not measured, or it has none
	watch      *labWatch             // nil: nothing watches it
	before     []deploy.ContainerUse // of its containers before the trials; nil: not known
	tried      time.Duration         // length of its trials
	shortest   time.Duration         // of them
	metering   []deploy.Metering     // of its hosts; nil: nobody reads what they count
	passed     []measure.Passed      // by host: what they have counted in its trials
	canary     []byte                // what machines listen for during a proof; nil: they do not
}

// pairAddresses is where the two ends of a pair are.
type pairAddresses struct {
	sourceHost, sinkHost int // from 1
	source, sink         network.Endpoint
	sourcePorts          network.Ports // the first is for proofs
	sending              network.Ports // those of the source, and those that the kernel gives to its sockets
	sinkPorts            network.Ports
}

// labWorker is one worker process of a lab and what must be known to start it again.
type labWorker struct {
	host.Worker
	lab  *lab
	side workload.Side
	host int // from 1
	// container is the one in which its process runs, "" for a process of the host, which drives all of its side.
	container string
	number    int            // in the turn
	rights    *rights.Rights // of its container, nil without one
	pairs     []int
	cpus      []int
	alone     bool // in no lab of the run do threads share a CPU
	specs     []worker.EndpointSpec
}

// id tells the worker from others of its lab: "source@host1", or "src0@host1" of a container that has one of its own.
func (w *labWorker) id() string {
	of := string(w.side)
	if w.container != "" {
		of = w.container
	}
	return fmt.Sprintf("%s@host%d", of, w.host)
}

func (w *labWorker) name() string { return fmt.Sprintf("%s of lab %s", w.id(), w.lab.ID) }

// assign gives an end of a pair to the worker that drives it: that of its side and host, or of its container where
// containers have processes of their own.
func (l *lab) assign(side workload.Side, on, pair int, cpus []int, alone bool) {
	container := ""
	if runtime.Inside(l.Stack) {
		container = nameOf(side, pair)
	}
	i := slices.IndexFunc(l.workers, func(w *labWorker) bool {
		return w.side == side && w.host == on && w.container == container
	})
	if i < 0 {
		i = len(l.workers)
		l.workers = append(l.workers, &labWorker{
			lab: l, side: side, host: on, container: container, number: len(l.generation.seats), cpus: cpus, alone: alone,
		})
		l.generation.seats = append(l.generation.seats, 0)
	}
	w := l.workers[i]
	w.pairs = append(w.pairs, pair)
	l.generation.seats[w.number]++
}

// start starts the worker's process and its threads.
func (w *labWorker) start(ctx context.Context) error {
	startCtx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	process, err := w.lab.stands.Start(startCtx, w.host, host.WorkerSpec{
		ID: w.id(), CPUs: w.cpus, Container: w.container,
	})
	if err != nil {
		return err
	}
	w.Worker = process
	if turns, ok := w.lab.generation.turns.(traffic.Called); ok {
		turns.Join(w.number, process.Call)
	}
	if turns, ok := w.lab.generation.turns.(traffic.Metering); ok && w.lab.metering != nil {
		turns.At(w.number, w.lab.metering[w.host-1].Machine)
	}
	var programs []int
	// they count once
	if first := slices.IndexFunc(w.lab.workers, func(o *labWorker) bool {
		return o.host == w.host
	}); w.lab.workers[first] == w {
		for _, p := range w.lab.stands.Reports()[w.host-1].Programs {
			programs = append(programs, p.PID)
		}
	}
	params := worker.BeginParams{
		Programs: programs, Worker: w.number, Pairs: len(w.pairs), CPUs: w.cpus, Run: uint64(w.lab.generation.number),
		Alone: w.alone, Watched: w.lab.generation.watched,
	}
	if w.container != "" {
		w.rights = &rights.Rights{}
		if err := w.call(ctx, worker.Rights, nil, w.rights); err != nil {
			return err
		}
	}
	return w.call(ctx, worker.Begin, params, nil)
}

// stopped says which process is stopped, if the worker does not answer for that, after a colon.
func (w *labWorker) stopped() string {
	if s, ok := w.Worker.(host.Stopper); ok {
		if what := s.Stopped(); what != "" {
			return ": " + what
		}
	}
	return ""
}

func (w *labWorker) call(ctx context.Context, method string, params, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, fmt.Errorf("no answer to %q within %v", method, callLimit))
	defer cancel()
	if err := w.Call(ctx, method, params, result); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = errors.Join(err, cause)
		}
		return fmt.Errorf("worker %s: %w%s", w.name(), err, w.suspicion(err))
	}
	return nil
}

// suspicion says that the AppArmor profile of the worker's container may be why it was refused something, after a
// semicolon; "" if it has none, or was refused nothing.
func (w *labWorker) suspicion(err error) string {
	if w.rights == nil || !w.rights.Confined() {
		return ""
	}
	for _, refused := range []error{syscall.EACCES, syscall.EPERM} {
		if strings.Contains(err.Error(), refused.Error()) {
			return "; its container has the AppArmor profile " + w.rights.AppArmor + ", which may refuse that (the kernel's " +
				"log has what it refuses: dmesg | grep DENIED)"
		}
	}
	return ""
}

// rights are those of the lab's containers, without repetition; nil if those have no processes of their own.
func (l *lab) rights() (list []measure.Rights) {
	for _, w := range l.workers {
		if w.rights == nil {
			continue
		}
		r := measure.Rights{
			Effective: fmt.Sprintf("%016x", w.rights.Effective), Bounding: fmt.Sprintf("%016x", w.rights.Bounding),
			Seccomp: w.rights.Seccomp, Filters: w.rights.Filters, NoNewPrivileges: w.rights.NoNewPrivileges,
			AppArmor: w.rights.AppArmor, UserNamespace: w.rights.UserNamespace,
		}
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// settable asks the lab's workers which congestion controls all of them can set.
func (l *lab) settable(ctx context.Context) ([]string, error) {
	can := candidates()
	for _, w := range l.workers {
		namespace := l.at[w.pairs[0]].source.Namespace
		if w.side == workload.Sink {
			namespace = l.at[w.pairs[0]].sink.Namespace
		}
		var these []string
		if err := w.call(ctx, worker.Congestion, worker.CongestionParams{Namespace: namespace, Candidates: can},
			&these); err != nil {
			return nil, err
		}
		can = these
	}
	return can, nil
}

// open opens all endpoints of the lab, sinks before sources.
func (l *lab) open(ctx context.Context) error {
	for _, side := range []workload.Side{workload.Sink, workload.Source} {
		for _, w := range l.workers {
			if w.side != side {
				continue
			}
			if err := w.call(ctx, worker.Open, worker.OpenParams{Endpoints: w.specs}, nil); err != nil {
				return err
			}
		}
	}
	for _, w := range l.workers {
		if err := w.call(ctx, worker.Ready, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// granted returns what the kernel granted the endpoints of each cell: pair 0 speaks for all where they agree.
func (l *lab) granted(ctx context.Context, cells []experiment.Cell) (map[string]any, error) {
	all := map[string]any{}
	for _, w := range l.workers {
		var facts []worker.EndpointFacts
		if err := w.call(ctx, worker.Facts, nil, &facts); err != nil {
			return nil, err
		}
		for _, f := range facts {
			key := cells[f.Cell].ID + " " + string(f.Side)
			if known, ok := all[key]; !ok {
				all[key] = f.Facts
			} else if known != any(f.Facts) {
				all[fmt.Sprintf("%s of pair %d", key, f.Pair)] = f.Facts
			}
		}
	}
	return all, nil
}

// byContainer returns the workers by the names of the containers whose sockets they have.
func (l *lab) byContainer() map[string]*labWorker {
	of := map[string]*labWorker{}
	for _, w := range l.workers {
		for _, pair := range w.pairs {
			of[nameOf(w.side, pair)] = w
		}
	}
	return of
}

// prove tries what the lab claims. Workers that do not answer are a fault, and the proof says nothing about the lab.
func (l *lab) prove(ctx context.Context, mtu int) ([]measure.Proof, *fault) {
	p := &player{lab: l, workers: l.byContainer(), silent: fault{visit: -1}}
	claims := l.described(mtu).Claims(l.ways)
	for i := range claims {
		claims[i].Mark = l.canary
	}
	list := proof.Play(ctx, claims, p)
	for i := range list {
		list[i].Generation, list[i].Lab = l.generation.number, l.ID
	}
	if len(p.silent.workers) > 0 {
		return list, &p.silent
	}
	return list, nil
}

// held says whether all claims did.
func held(list []measure.Proof) bool { return broken(list) == nil }

// broken is the first claim that did not hold, nil if all did. A leak comes before what it is a consequence of.
func broken(list []measure.Proof) *measure.Proof {
	if i := slices.IndexFunc(list, func(p measure.Proof) bool {
		return p.Name == proof.Hidden && !p.OK && len(p.Tried) > 0
	}); i >= 0 {
		return &list[i]
	}
	if i := slices.IndexFunc(list, func(p measure.Proof) bool { return !p.OK }); i >= 0 {
		return &list[i]
	}
	return nil
}

// player has a lab's workers make the tries of a proof.
type player struct {
	lab     *lab
	workers map[string]*labWorker // by the names of containers, whose sockets they have
	silent  fault                 // those that did not answer
}

func (p *player) call(ctx context.Context, w *labWorker, method string, params, result any) error {
	if slices.Contains(p.silent.workers, w) {
		return errors.New(p.silent.reason)
	}
	err := w.call(ctx, method, params, result)
	if err != nil && (w.dead() || errors.Is(err, context.DeadlineExceeded)) {
		p.silent.workers = append(p.silent.workers, w)
		p.silent.reason = strings.TrimPrefix(p.silent.reason+"; "+err.Error(), "; ")
	}
	return err
}

// Open implements [proof.Player].
func (p *player) Open(ctx context.Context, t proof.Try) error {
	return p.call(ctx, p.workers[t.To.Container], worker.ProofOpen, t, nil)
}

// Try implements [proof.Player]: each worker makes those of its containers, one worker after another.
func (p *player) Try(ctx context.Context, list []proof.Try) []proof.Seen {
	seen := make([]proof.Seen, len(list))
	for _, w := range p.lab.workers {
		var own []proof.Try
		var at []int
		for i, t := range list {
			if p.workers[t.From.Container] == w {
				own, at = append(own, t), append(at, i)
			}
		}
		if len(own) == 0 {
			continue
		}
		var said []proof.Seen
		err := p.call(ctx, w, worker.ProofTry, own, &said)
		if err == nil && len(said) != len(own) {
			err = fmt.Errorf("worker %s made %d of %d tries", w.name(), len(said), len(own))
		}
		for n, i := range at {
			if err != nil {
				seen[i].NotTried = err.Error()
			} else {
				seen[i] = said[n]
			}
		}
	}
	return seen
}

// Close implements [proof.Player].
func (p *player) Close(ctx context.Context) error {
	var errs []error
	for _, w := range p.lab.workers {
		if w.side == workload.Sink {
			errs = append(errs, p.call(ctx, w, worker.ProofClose, nil, nil))
		}
	}
	return errors.Join(errs...)
}

// dead says whether the worker's process has ended.
func (w *labWorker) dead() bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

// restart puts a new process in a dead worker's place and opens the whole lab's sockets anew.
func (l *lab) restart(ctx context.Context, w *labWorker) error {
	_ = w.Kill() // it is dead or hangs; a hanging one ends here
	if err := w.start(ctx); err != nil {
		return err
	}
	return l.open(ctx)
}

// close ends everything in the lab.
func (l *lab) close() {
	if l.stands != nil {
		l.stands.Close()
		l.stands = nil
	}
}
