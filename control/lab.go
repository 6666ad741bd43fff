package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/traffic/worker"
	"github.com/nettoll/nettoll/workload"
)

// lab is one stack × placement × pairs as it stands.
type lab struct {
	experiment.Lab
	generation *generation
	hosts      []host.Host // host 1 first
	underlay   host.Host   // nil on one host
	workers    []*labWorker
	families   []string      // that its cells use
	congestion []string      // what its workers can set
	took       time.Duration // to build it
	waited     time.Duration // meanwhile, for others, and for what was measured of it
	at         []pairAddresses
	ports      []uint16 // that programs of its workloads listen at besides those of their containers
	plans      []host.Plan
	beneath    host.Plan     // of the underlay
	told       []host.Told   // by host
	across     *filter.Probe // what rules of two hosts are tried with; nil on one
	paths      *paths        // nil if its network does not say which way packets take

	journal *journal.Journal // of the run, if the lab takes what outlives it
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
	lab    *lab
	side   workload.Side
	host   int // from 1
	number int // on the board
	pairs  []int
	cpus   []int
	alone  bool // in no lab of the run do threads share a CPU
	specs  []worker.EndpointSpec
}

func (w *labWorker) name() string {
	return fmt.Sprintf("%s@host%d of lab %s", w.side, w.host, w.lab.ID)
}

func (l *lab) assign(side workload.Side, host, pair int, cpus []int, alone bool) {
	i := slices.IndexFunc(l.workers, func(w *labWorker) bool { return w.side == side && w.host == host })
	if i < 0 {
		i = len(l.workers)
		l.workers = append(l.workers, &labWorker{
			lab: l, side: side, host: host, number: len(l.generation.seats), cpus: cpus, alone: alone,
		})
		l.generation.seats = append(l.generation.seats, 0)
	}
	w := l.workers[i]
	w.pairs = append(w.pairs, pair)
	l.generation.seats[w.number]++
}

// verify asks the kernels of all hosts, at the same time, whether the lab still is what was planned.
func (l *lab) verify(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, h := range l.all() {
		group.Go(func() error { return h.Verify(ctx) })
	}
	return group.Wait()
}

// all returns the hosts that stand, the underlay last.
func (l *lab) all() []host.Host {
	var all []host.Host
	for _, h := range l.hosts {
		if h != nil {
			all = append(all, h)
		}
	}
	if l.underlay != nil {
		all = append(all, l.underlay)
	}
	return all
}

// start starts the worker's process and its threads.
func (w *labWorker) start(ctx context.Context) error {
	startCtx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	process, err := w.lab.hosts[w.host-1].Start(startCtx, host.WorkerSpec{
		ID: fmt.Sprintf("%s@host%d", w.side, w.host), CPUs: w.cpus,
	})
	if err != nil {
		return err
	}
	w.Worker = process
	var programs []int
	// they count once
	if first := slices.IndexFunc(w.lab.workers, func(o *labWorker) bool {
		return o.host == w.host
	}); w.lab.workers[first] == w && w.lab.told != nil {
		for _, p := range w.lab.told[w.host-1].Programs {
			programs = append(programs, p.PID)
		}
	}
	params := worker.BeginParams{
		Programs: programs, Worker: w.number, Pairs: len(w.pairs), CPUs: w.cpus, Run: uint64(w.lab.generation.number + 1),
		Alone: w.alone, Watched: w.lab.generation.watched,
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
		return fmt.Errorf("worker %s: %w", w.name(), err)
	}
	return nil
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

// prove probes the allowed pairs with full-size packets, and compares the way that these, and those of trials before,
// have taken with that of the plan. Workers that do not answer are a fault, and the proof says nothing about the lab.
func (l *lab) prove(ctx context.Context, mtu int) (measure.Proof, *fault) {
	result := measure.Proof{
		Generation: l.generation.number, Lab: l.ID,
		Claim: fmt.Sprintf("every pair passes packets of %d bytes both ways, unfragmented", mtu), OK: true,
	}
	fail := func(format string, args ...any) {
		result.OK = false
		if result.Detail == "" {
			result.Detail = fmt.Sprintf(format, args...)
		}
	}
	silent := &fault{visit: -1}
	call := func(w *labWorker, method string, params, result any) error {
		if slices.Contains(silent.workers, w) {
			return errors.New(silent.reason)
		}
		err := w.call(ctx, method, params, result)
		if err != nil && (w.dead() || errors.Is(err, context.DeadlineExceeded)) {
			silent.workers = append(silent.workers, w)
			silent.reason = strings.TrimPrefix(silent.reason+"; "+err.Error(), "; ")
		}
		return err
	}
	find := func(side workload.Side, pair int) *labWorker {
		i := slices.IndexFunc(l.workers, func(w *labWorker) bool { return w.side == side && slices.Contains(w.pairs, pair) })
		return l.workers[i]
	}
	var before []host.Trace
	var arrived []int64
	if l.paths != nil {
		result.Claim += claim
		before, arrived = l.begin(ctx, fail), l.paths.none()
	}
	for pair, at := range l.at {
		for _, family := range l.families {
			// A translated container is reached, and seen, at another address than its own.
			params := worker.ProofParams{
				Namespace: at.sink.Namespace,
				Local:     netip.AddrPortFrom(at.sink.Bind(family), at.sinkPorts.First),
				Remote:    netip.AddrPortFrom(at.source.Public(family), at.sourcePorts.First),
			}
			if err := call(find(workload.Sink, pair), worker.ProofOpen, params, nil); err != nil {
				fail("pair %d, %s: %v", pair, family, err)
				continue
			}
			params = worker.ProofParams{
				Namespace: at.source.Namespace,
				Local:     netip.AddrPortFrom(at.source.Bind(family), at.sourcePorts.First),
				Remote:    netip.AddrPortFrom(at.sink.Public(family), at.sinkPorts.First),
				Payload:   proof.FullPayload(mtu, family == "ipv6"),
				More:      counted,
			}
			var tried worker.ProofResult
			if err := call(find(workload.Source, pair), worker.ProofTry, params, &tried); err != nil {
				fail("pair %d, %s: %v", pair, family, err)
			} else if !tried.OK {
				fail("pair %d, %s: %s", pair, family, tried.Detail)
			} else if tried.Answered == 0 {
				fail("pair %d, %s: of %d small datagrams none was answered", pair, family, counted)
			} else if l.paths != nil {
				arrived[l.paths.trips[trip{pair, family, false}]] = int64(tried.Answered)
				arrived[l.paths.trips[trip{pair, family, true}]] = int64(tried.Answered)
			}
		}
	}
	if l.paths != nil {
		l.end(ctx, before, arrived, fail)
	}
	end := func() {
		for _, w := range l.workers {
			if w.side == workload.Sink {
				if err := call(w, worker.ProofClose, nil, nil); err != nil {
					fail("%v", err)
				}
			}
		}
	}
	end()
	if filtered(l.Lab) {
		result.Claim += "; a port of its sink that is not on the list, and the sinks of other pairs, do not answer it"
		l.refuse(call, find, fail)
		end()
	}
	if len(silent.workers) > 0 {
		return result, silent
	}
	return result, nil
}

// refused is how many pairs of a lab with a filter are tried with what must not pass.
const refused = 8

// refuse adds to the proof of a lab with a filter that what is not allowed does not pass: to a port of the sink that is
// not on the list, and to the sink of another pair at one that is.
func (l *lab) refuse(call func(*labWorker, string, any, any) error, find func(workload.Side, int) *labWorker,
	fail func(string, ...any),
) {
	for pair := range min(len(l.at), refused) {
		others := []int{pair}
		if len(l.at) > 1 {
			others = append(others, (pair+1)%len(l.at))
		}
		for _, to := range others {
			source, sink := l.at[pair], l.at[to]
			port := sink.sinkPorts.Last
			if to != pair {
				port = sink.sinkPorts.First
			}
			for _, family := range l.families {
				local := netip.AddrPortFrom(sink.sink.Bind(family), port)
				from := netip.AddrPortFrom(source.source.Bind(family), source.sourcePorts.First)
				params := worker.ProofParams{
					Namespace: sink.sink.Namespace, Local: local,
					Remote: netip.AddrPortFrom(source.source.Public(family), from.Port()),
				}
				if err := call(find(workload.Sink, to), worker.ProofOpen, params, nil); err != nil {
					fail("pair %d, %s: %v", to, family, err)
					continue
				}
				params = worker.ProofParams{
					Namespace: source.source.Namespace, Local: from, Remote: netip.AddrPortFrom(sink.sink.Public(family), port),
					Refused: true,
				}
				var tried worker.ProofResult
				if err := call(find(workload.Source, pair), worker.ProofTry, params, &tried); err != nil {
					fail("pair %d, %s: %v", pair, family, err)
				} else if !tried.OK {
					fail("the filter lets through what it must not: %s", tried.Detail)
				}
			}
		}
	}
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

// close ends everything in the lab, and gives back what is the machine's.
func (l *lab) close() {
	var group sync.WaitGroup
	for _, h := range l.all() {
		group.Go(func() {
			if len(borrows(l.Lab)) > 0 {
				ctx, cancel := context.WithTimeout(context.Background(), callLimit) // also where the run was interrupted
				_ = h.Undo(ctx)                                                     // what cannot be undone is recovered below
				cancel()
			}
			_ = h.Close() // what is left is killed by the kernel with its PID namespace
		})
	}
	group.Wait()
	if l.journal != nil {
		ctx, cancel := context.WithTimeout(context.Background(), callLimit)
		_ = l.journal.Recover(ctx, l.mark()) // what is left is said when the run ends
		cancel()
	}
}
