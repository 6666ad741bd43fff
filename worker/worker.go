package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/rights"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Worker is the state of a worker process.
type Worker struct {
	Config

	mu        sync.Mutex // of everything below; never held while a block runs
	seats     int
	turn      traffic.Turn // nil before Begin has made the threads
	endpoints atomic.Pointer[table]
	tries     proof.Here
	parties   map[string]*proof.Plain // by container
}

// table holds the endpoints of all visits, by their number on the board. Threads read it; Open replaces it between
// blocks.
type table map[int][]slot

type slot struct {
	spec     EndpointSpec
	endpoint traffic.Endpoint
}

// A Config configures a worker.
type Config struct {
	Workloads []workload.Workload
	Drivers   []driver.Driver
	Probes    []probe.Probe
	Host
}

// A Host is what a deployment provides to a worker on a host.
type Host struct {
	// Enter calls f on a thread that is in a network namespace of the host. The namespace has the name that host steps
	// use; "" is the worker's own.
	Enter func(namespace string, f func() error) error
	// OpenTurn opens this process's end of the turn.
	OpenTurn func(traffic.Meters) (traffic.Turn, error)
	// TurnMethods are further methods, by which a controller that shares no memory with this process passes the turn. The
	// worker answers them also while it answers another call. They are nil if the turn needs none.
	TurnMethods protocol.Methods
	// Pin limits this process to CPUs, with all threads that it has and will have.
	Pin func(cpus []int) error
	// RunTime returns the CPU time so far of a process of the host; 0 if it is gone.
	RunTime func(pid int) time.Duration
	// Softirqd are open schedstat files of the ksoftirqd threads of the CPUs that may be used. If there are none, these
	// threads are not metered.
	Softirqd []*os.File
	// Probed returns the file in which a probe counts, by the name of the probe; nil if that probe is not loaded.
	Probed func(name string) *os.File
}

// New returns a worker that has no threads yet.
func New(c Config) *Worker {
	w := &Worker{Config: c, parties: map[string]*proof.Plain{}}
	w.tries = proof.Here{In: func(e proof.End, f func() error) error { return c.Enter(e.Namespace, f) }}
	w.endpoints.Store(&table{})
	return w
}

// Methods returns the methods that the worker answers over the protocol.
func (w *Worker) Methods() protocol.Methods {
	all := protocol.Methods{
		protocol.Pin: method(w, (*Worker).pin),

		Begin:      method(w, (*Worker).begin),
		Rights:     method(w, (*Worker).rights),
		Links:      method(w, (*Worker).links),
		Devices:    method(w, (*Worker).devices),
		Congestion: method(w, (*Worker).congestion),
		Open:       method(w, (*Worker).open),
		Ready:      method(w, (*Worker).ready),
		Facts:      method(w, (*Worker).facts),
		ProofOpen:  method(w, (*Worker).proofOpen),
		ProofTry:   method(w, (*Worker).proofTry),
		ProofClose: method(w, (*Worker).proofClose),

		SampleListen:  method(w, (*Worker).sampleListen),
		SampleSend:    method(w, (*Worker).sampleSend),
		SampleArrived: method(w, (*Worker).sampleArrived),

		ReachOpen:  method(w, (*Worker).reachOpen),
		ReachSend:  method(w, (*Worker).reachSend),
		ReachHeard: method(w, (*Worker).reachHeard),
		ReachClose: method(w, (*Worker).reachClose),

		Collect: method(w, (*Worker).collect),
	}
	maps.Copy(all, w.TurnMethods)
	return all
}

// method makes a handler that runs with the worker locked. Its result is encoded before the lock is released, because
// samples have memory in them that the next trial writes.
func method[P, R any](w *Worker, f func(*Worker, P) (R, error)) protocol.Handler {
	return protocol.Method(func(_ context.Context, params P) (json.RawMessage, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.turn != nil {
			w.turn.Ordered()
			defer w.turn.Ordered()
		}
		result, err := f(w, params)
		if err != nil {
			return nil, err
		}
		return json.Marshal(result)
	})
}

type nothing struct{}

func (w *Worker) pin(cpus []int) (nothing, error) { return nothing{}, w.Host.Pin(cpus) }

func (w *Worker) begin(p BeginParams) (nothing, error) {
	if w.seats > 0 {
		return nothing{}, errors.New("begin: the threads are already running")
	}
	var meters traffic.Meters
	for _, one := range w.Probes {
		file := w.Probed(one.Describe().Name)
		if file == nil || len(p.Watched) == 0 {
			continue
		}
		read, err := one.Open(file, p.Watched)
		if err != nil {
			return nothing{}, err
		}
		meters.Probe = read
	}
	meters.Softirqd = traffic.Softirqd(w.Softirqd)
	turn, err := w.OpenTurn(meters)
	if err != nil {
		return nothing{}, fmt.Errorf("begin: %w", err)
	}

	// A thread in a measuring loop never gives its P back, so there is one P for each thread, and two more for
	// everything else.
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(p.Pairs + 2)
	ids, ready := make(chan int, p.Pairs), make(chan error, p.Pairs)
	for seat := range p.Pairs {
		t := &traffic.Thread{
			Turn: turn, Seat: traffic.Seat{Worker: p.Worker, Pair: seat}, Run: p.Run,
			Endpoint: func(visit int) traffic.Endpoint { return w.endpoint(visit, seat) },
			Ready:    ready, ThreadIDs: ids,
		}
		if seat == 0 && len(p.Programs) > 0 {
			t.ProgramCPU = func() (sum time.Duration) {
				for _, pid := range p.Programs {
					sum += w.RunTime(pid)
				}
				return sum
			}
		}
		if len(p.CPUs) > 0 {
			t.CPUs = []int{p.CPUs[seat%len(p.CPUs)]}
		}
		go t.Serve()
	}
	for range p.Pairs {
		if err := <-ready; err != nil {
			return nothing{}, err
		}
	}
	w.turn = turn
	hot := map[int]bool{}
	for range p.Pairs {
		hot[<-ids] = true
	}
	w.seats = p.Pairs
	if !p.Alone { // see Park
		return nothing{}, nil
	}
	return nothing{}, thread.Park(hot)
}

// endpoint returns the endpoint that a thread drives in a visit. It is called during a turn and takes no lock.
func (w *Worker) endpoint(visit, seat int) traffic.Endpoint {
	slots := (*w.endpoints.Load())[visit]
	if seat >= len(slots) {
		return nil
	}
	return slots[seat].endpoint
}

func (w *Worker) congestion(p CongestionParams) ([]string, error) {
	can := []string{}
	err := w.Enter(p.Namespace, func() error {
		for _, name := range p.Candidates {
			s, err := sock.AnyStream()
			if err != nil {
				return err
			}
			if s.SetCongestion(name) == nil {
				can = append(can, name)
			}
			s.Close()
		}
		return nil
	})
	return can, err
}

func (w *Worker) workload(name string) (workload.Workload, error) {
	names := make([]string, len(w.Workloads))
	for i, l := range w.Workloads {
		if names[i] = l.Describe().Name; names[i] == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("unknown workload %q (known: %s)", name, strings.Join(names, ", "))
}

// opener returns the function that opens an endpoint: that of the driver if one is named, otherwise that of the
// workload.
func (w *Worker) opener(s workload.Spec) (func(workload.Spec) (traffic.Endpoint, error), error) {
	load, err := w.workload(s.Workload)
	if err != nil {
		return nil, err
	}
	if s.Driver == "" {
		return load.Open, nil
	}
	names := make([]string, len(w.Drivers))
	for i, d := range w.Drivers {
		if names[i] = d.Describe().Name; names[i] == s.Driver {
			return driver.Opener(d, load, s.Side), nil
		}
	}
	return nil, fmt.Errorf("unknown driver %q (known: %s)", s.Driver, strings.Join(names, ", "))
}

func (w *Worker) open(p OpenParams) (nothing, error) {
	next := table{}
	for visit, slots := range *w.endpoints.Load() {
		next[visit] = slices.Clone(slots)
	}
	defer func() { w.endpoints.Store(&next) }()
	for _, spec := range p.Endpoints {
		if spec.Seat < 0 || spec.Seat >= w.seats {
			return nothing{}, fmt.Errorf("open endpoint at seat %d: there are only %d seats", spec.Seat, w.seats)
		}
		open, err := w.opener(spec.Spec)
		if err != nil {
			return nothing{}, err
		}
		slots := next[spec.Visit]
		for len(slots) <= spec.Seat {
			slots = append(slots, slot{})
		}
		next[spec.Visit] = slots
		s := &slots[spec.Seat]
		if s.endpoint != nil {
			s.endpoint.Close()
		}
		*s = slot{spec: spec}
		err = w.Enter(spec.Namespace, func() (err error) {
			s.endpoint, err = open(spec.Spec)
			return err
		})
		if err != nil {
			s.endpoint = nil
			return nothing{}, fmt.Errorf("open %s of pair %d for %s: %w", spec.Spec.Side, spec.Spec.Pair, spec.Spec.Workload,
				err)
		}
	}
	return nothing{}, nil
}

// each calls f for every open endpoint, in the order of visits and seats.
func (w *Worker) each(f func(slot) error) error {
	t := *w.endpoints.Load()
	visits := make([]int, 0, len(t))
	for visit := range t {
		visits = append(visits, visit)
	}
	slices.Sort(visits)
	for _, visit := range visits {
		for _, s := range t[visit] {
			if s.endpoint == nil {
				continue
			}
			if err := f(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Worker) ready(nothing) (nothing, error) {
	until := time.Now().Add(traffic.ConnectLimit)
	return nothing{}, w.each(func(s slot) error {
		r, ok := s.endpoint.(workload.Readier)
		if !ok {
			return nil
		}
		if err := r.Ready(time.Until(until)); err != nil {
			return fmt.Errorf("%s of pair %d for %s: %w", s.spec.Spec.Side, s.spec.Spec.Pair, s.spec.Spec.Workload, err)
		}
		return nil
	})
}

func (w *Worker) rights(nothing) (rights.Rights, error) { return rights.Own() }

func (w *Worker) links(nothing) ([]Link, error) { return OwnLinks() }

func (w *Worker) devices(nothing) ([]traffic.DeviceCount, error) {
	h, err := link.Open()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return CountDevices(h)
}

func (w *Worker) facts(nothing) ([]EndpointFacts, error) {
	all := []EndpointFacts{}
	err := w.each(func(s slot) error {
		f, err := s.endpoint.Facts()
		all = append(all, EndpointFacts{Cell: s.spec.Cell, Pair: s.spec.Spec.Pair, Side: s.spec.Spec.Side, Facts: f})
		return err
	})
	return all, err
}

func (w *Worker) proofOpen(t proof.Try) (nothing, error) {
	return nothing{}, w.tries.Open(context.Background(), t)
}

func (w *Worker) proofTry(list []proof.Try) ([]proof.Seen, error) {
	return w.tries.Try(context.Background(), list), nil
}

func (w *Worker) proofClose(nothing) (nothing, error) {
	return nothing{}, w.tries.Close(context.Background())
}

func (w *Worker) sampleListen(t proof.Try) (nothing, error) {
	return nothing{}, w.tries.Listen(context.Background(), t)
}

func (w *Worker) sampleSend(t proof.Try) (nothing, error) {
	return nothing{}, w.tries.Send(context.Background(), t)
}

func (w *Worker) sampleArrived(nothing) (int64, error) {
	return w.tries.Arrived(context.Background()), nil
}

func (w *Worker) collect(p CollectParams) ([]CellSamples, error) {
	t := *w.endpoints.Load()
	all := make([]CellSamples, 0, len(p.Visits))
	for _, visit := range p.Visits {
		var of []slot // of one cell; the members of a mix follow each other
		for i, s := range t[visit] {
			if s.endpoint == nil && s.spec.Spec.Workload == "" { // of a pair that is not in the visit
				continue
			}
			of = append(of, s)
			if i+1 < len(t[visit]) && t[visit][i+1].spec.Cell == s.spec.Cell {
				continue
			}
			c, err := samples(s.spec.Cell, of)
			if err != nil {
				return nil, err
			}
			all, of = append(all, c), nil
		}
	}
	traffic.Sweep()
	return all, nil
}

// samples returns the samples of the last trial of a cell from its endpoints.
func samples(cell int, at []slot) (CellSamples, error) {
	c := CellSamples{Cell: cell}
	var sums [traffic.Quantities]*hdrhistogram.Histogram
	for _, s := range at {
		if s.endpoint == nil {
			continue
		}
		if k, ok := s.endpoint.(traffic.Collector); ok {
			k.Collect()
		}
		c.Pairs = append(c.Pairs, s.spec.Spec.Pair)
		c.Side = append(c.Side, s.spec.Spec.Side)
		c.Samples = append(c.Samples, *s.endpoint.Sample())
		for q, r := range s.endpoint.Recorders() {
			if r == nil || r.Count == 0 {
				continue
			}
			if sums[q] == nil {
				sums[q] = traffic.NewHistogram()
			}
			if err := r.AddTo(sums[q]); err != nil {
				return c, err
			}
		}
	}
	for q, sum := range sums {
		if sum == nil {
			continue
		}
		var err error
		if c.Histograms[q], err = measure.EncodeHistogram(sum); err != nil {
			return c, err
		}
	}
	return c, nil
}
