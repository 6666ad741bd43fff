package workloadtest

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/board"
	"github.com/nettoll/nettoll/workload"
)

// Rig drives pairs of endpoints of one workload over loopback, with the threads, the board and the turn of a real
// worker, in the test's own process.
type Rig struct {
	Turns   traffic.Turns
	Load    workload.Workload
	Params  part.Params
	Length  time.Duration
	Warm    time.Duration
	Sources []traffic.Endpoint
	Sinks   []traffic.Endpoint
	threads int
}

// Options configure a rig.
type Options struct {
	Pairs  int
	Length time.Duration
	Given  map[string]string // parameters
	Plant  time.Duration
	Stall  workload.Stall
	// Wrap, if set, replaces an endpoint: for faults.
	Wrap func(workload.Side, int, traffic.Endpoint) traffic.Endpoint
	// Where gives the places of the endpoints of a side; other endpoints are at 127.0.0.1 in the test's own namespace.
	Where map[workload.Side]Where
}

// Where is a place for endpoints: an address, and a function that calls another one in the network namespace of the
// address.
type Where struct {
	Address netip.Addr
	Do      func(func() error) error
}

func (o Options) where(side workload.Side) Where {
	if w, ok := o.Where[side]; ok {
		return w
	}
	return Where{loopback, func(f func() error) error { return f() }}
}

// The board numbers of a rig's two workers.
const (
	SourceWorker = 0
	SinkWorker   = 1
)

// rigPorts is the number of ports of each endpoint of a rig.
const rigPorts = 8

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Loopback makes 127.0.0.1 reachable: in the namespace that testnet.Main gives to tests, lo is down at first.
func Loopback(t testing.TB) {
	t.Helper()
	h, err := link.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	lo, err := h.ByName("lo")
	if err == nil && !lo.Up {
		err = h.SetUp(lo.Index, true)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// NewRig opens the endpoints and starts the threads, with unused ports.
func NewRig(t testing.TB, load workload.Workload, o Options) *Rig {
	t.Helper()
	Loopback(t)
	params, err := load.Describe().Resolve(o.Given)
	if err != nil {
		t.Fatal(err)
	}
	layout := traffic.Layout{Workers: 2, Pairs: o.Pairs, Cells: 1}
	turns, err := board.New(layout) // stays mapped: the threads live as long as the process
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range turns.Files() {
		_ = f.Close() // the mapping holds the memory
	}
	r := &Rig{
		Turns: turns, Load: load, Params: params, Length: o.Length,
		Warm: time.Duration(load.Describe().Warm * float64(o.Length)), threads: 2 * o.Pairs,
	}
	err = turns.SetCell(0, traffic.CellPlan{
		Workers: []int{SourceWorker, SinkWorker}, Threads: []int{o.Pairs, o.Pairs}, Warm: r.Warm, Length: r.Length,
	})
	if err != nil {
		t.Fatal(err)
	}
	for pair := range o.Pairs {
		from, to := o.where(workload.Source), o.where(workload.Sink)
		source, sink := netip.AddrPortFrom(from.Address, freePorts(rigPorts)),
			netip.AddrPortFrom(to.Address, freePorts(rigPorts))
		open := func(side workload.Side, local, remote netip.AddrPort) (e traffic.Endpoint) {
			err := o.where(side).Do(func() (err error) {
				e, err = load.Open(workload.Spec{
					Workload: load.Describe().Name, Params: params, Side: side, Pair: pair, Local: local, Remote: remote,
					LocalPorts: rigPorts, RemotePorts: rigPorts,
					Seed: uint64(pair), Plant: o.Plant, Stall: o.Stall,
				})
				return err
			})
			testnet.Skip(t, err) // its program may not be installed
			t.Cleanup(e.Close)
			return e
		}
		snk := open(workload.Sink, sink, source)
		src := open(workload.Source, source, sink)
		for _, e := range []traffic.Endpoint{src, snk} {
			if ready, ok := e.(workload.Readier); ok {
				if err := ready.Ready(patience); err != nil {
					t.Fatalf("%v: from %v to %v%s", err, source, sink, network(to))
				}
			}
		}
		if o.Wrap != nil {
			src, snk = o.Wrap(workload.Source, pair, src), o.Wrap(workload.Sink, pair, snk)
		}
		r.Sources, r.Sinks = append(r.Sources, src), append(r.Sinks, snk)
	}
	// A thread in a loop never gives its P back, and a garbage collection would stop the other side of its pair until
	// it has ended (see the worker).
	before, collect := runtime.GOMAXPROCS(r.threads+2), debug.SetGCPercent(-1)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(before)
		debug.SetGCPercent(collect)
	})
	ids, ready := make(chan int, r.threads), make(chan error, r.threads)
	cpus, err := thread.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	for worker, endpoints := range [][]traffic.Endpoint{r.Sources, r.Sinks} {
		for pair, e := range endpoints {
			th := &traffic.Thread{
				Turn: turns, Seat: traffic.Seat{Worker: worker, Pair: pair}, Run: 1, CPUs: cpus[worker*len(cpus)/2:][:1],
				Endpoint: func(int) traffic.Endpoint { return e }, Ready: ready, ThreadIDs: ids,
			}
			go th.Serve()
		}
	}
	for range r.threads {
		if err := <-ready; err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// patience is how long an endpoint may take to get ready: the time is not checked, and a machine may be busy.
const patience = 30 * time.Second

// network returns what the kernel says of the connections at a place, and of packets that it has dropped there.
func network(at Where) string {
	var b strings.Builder
	err := at.Do(func() error {
		for _, name := range []string{"tcp", "tcp6", "snmp", "netstat", "softnet_stat"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "\n%s:\n%s", name, text)
		}
		return nil
	})
	if err != nil {
		fmt.Fprintf(&b, "\n%v", err)
	}
	return b.String()
}

// Block runs one block of one trial and returns its timing.
func (r *Rig) Block(ctx context.Context) (traffic.Timing, error) {
	timings, err := r.Turns.Run(ctx, []int{0}, func(int) int { return len(r.Sources) })
	return timings[0], err
}

// Trial runs one trial and returns it with the workload's result.
func (r *Rig) Trial(t testing.TB) (workload.Trial, workload.Result) {
	t.Helper()
	timing, err := r.Block(context.Background())
	if err != nil || !timing.Done {
		t.Fatalf("trial: %v, %+v", err, timing)
	}
	trial := workload.Trial{Params: r.Params, Window: r.Length - r.Warm, Length: r.Length}
	for _, e := range r.Sources {
		trial.Sources = append(trial.Sources, sample(e))
	}
	for _, e := range r.Sinks {
		trial.Sinks = append(trial.Sinks, sample(e))
	}
	for _, e := range slices.Concat(r.Sources, r.Sinks) {
		for q, rec := range e.Recorders() {
			if rec == nil || rec.Count == 0 {
				continue
			}
			if trial.Histograms[q] == nil {
				trial.Histograms[q] = traffic.NewHistogram()
			}
			if err := rec.AddTo(trial.Histograms[q]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if trial.Failure() != "" {
		return trial, workload.Result{}
	}
	trial = trial.Settled()
	return trial, r.Load.Metrics(trial)
}

func sample(e traffic.Endpoint) traffic.Sample {
	if k, ok := e.(traffic.Collector); ok {
		k.Collect()
	}
	return *e.Sample()
}
