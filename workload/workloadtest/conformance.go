package workloadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// The ports of tests are below those that the kernel chooses by itself, so that no connection takes one by chance. They
// are given out in turn: so a port that is opened much later, or in another namespace, is still unused.
const lowestPort, ports = 10000, 20000

var portsGiven atomic.Uint32

// FreePort returns a port that nothing else in this process uses.
func FreePort() uint16 { return freePorts(1) }

// freePorts returns the first of n such ports in a row.
func freePorts(n int) uint16 {
	for {
		first := (portsGiven.Add(uint32(n)) - uint32(n)) % ports
		if first+uint32(n) <= ports {
			return uint16(lowestPort + first)
		}
	}
}

// Conformance checks what every workload must do. Variants are the parameters with which it runs; {} stands for the
// defaults.
func Conformance(t *testing.T, load workload.Workload, variants ...map[string]string) {
	d := load.Describe()
	t.Run("description", func(t *testing.T) { description(t, d) })
	for _, given := range variants {
		params, err := d.Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(d.ID(params), func(t *testing.T) {
			t.Run("trials", func(t *testing.T) { trials(t, load, given) })
			t.Run("no allocation", func(t *testing.T) { noAllocation(t, load, given) })
			t.Run("silent peer", func(t *testing.T) { silentPeer(t, load, given) })
			t.Run("endless peer", func(t *testing.T) { endlessPeer(t, load, given) })
			t.Run("hanging peer", func(t *testing.T) { hangingPeer(t, load, given) })
			t.Run("interruption", func(t *testing.T) { interruption(t, load, given) })
			t.Run("port taken", func(t *testing.T) { portTaken(t, load, given) })
			t.Run("no descriptors", func(t *testing.T) { noDescriptors(t, load, given) })
			t.Run("dying peer", func(t *testing.T) { dyingPeer(t, load, given) })
		})
	}
}

// Described checks only the description, for workloads whose endpoints are programs, without loops to check.
func Described(t *testing.T, load workload.Workload) { description(t, load.Describe()) }

func description(t *testing.T, d workload.Description) {
	if d.Name == "" || d.Summary == "" || d.Reproduces == "" || d.Why == "" || d.Primary == nil || d.Trial == nil ||
		d.Spins == nil {
		t.Errorf("incomplete: %+v", d)
	}
	p, err := d.Resolve(nil)
	if err != nil {
		t.Fatalf("defaults: %v", err)
	}
	name, given, err := part.Parse("workload", d.ID(p))
	if err != nil || name != d.Name {
		t.Fatalf("parse own id %q: %q, %v", d.ID(p), name, err)
	}
	if again, err := d.Resolve(given); err != nil || d.ID(again) != d.ID(p) {
		t.Errorf("id %q does not lead back to itself: %q, %v", d.ID(p), d.ID(again), err)
	}
	if _, err := d.Resolve(map[string]string{"no-such": "1"}); err == nil || !strings.Contains(err.Error(), `"no-such"`) {
		t.Errorf("unknown parameter: %v, want an error that quotes it", err)
	}
	if _, known := d.Vocabulary().Lookup(d.Primary(p)); !known {
		t.Errorf("primary metric %q is not declared", d.Primary(p))
	}
	if n := d.Trial(p); n <= 0 {
		t.Errorf("trial of %v", n)
	}
}

// Borne is the limit for the loss in trials of which all messages are expected: half a drain. If other work takes the
// CPUs away for longer, requests are late and markers lost, and the figures show that.
func Borne() witness.Limit { return witness.Limit{Lost: traffic.DrainLimit / 2} }

// sound runs a trial that has the workload's primary metric, and returns it.
func sound(t *testing.T, r *Rig) (trial workload.Trial, result workload.Result) {
	t.Helper()
	primary, limit := r.Load.Describe().Primary(r.Params), Borne()
	cpus, err := thread.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	limit.Crowded = r.threads > len(cpus)
	witness.Until(t, limit, func() error {
		trial, result = r.Trial(t)
		if v := result.Metrics[primary]; !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("no %s: %+v, %+v", primary, result.Metrics, trial)
		}
		return nil
	})
	return trial, result
}

// trials checks that several trials in a row have plausible figures, and that none counts what belongs to another.
func trials(t *testing.T, load workload.Workload, given map[string]string) {
	pairs := 2
	if params, _ := load.Describe().Resolve(given); load.Describe().Spins(params) {
		pairs = 1 // each CPU of a small machine can hold one spinning thread
	}
	r := NewRig(t, load, Options{Pairs: pairs, Length: 150 * time.Millisecond, Given: given})
	for range 4 {
		trial, result := sound(t, r)
		for i, s := range slices.Concat(trial.Sources, trial.Sinks) {
			if s.Failure != "" {
				t.Errorf("endpoint %d: %s", i, s.Failure)
			}
			if s.CPU <= 0 || s.CPU > s.Span || s.Span < int64(r.Length) {
				t.Errorf("endpoint %d: run time %d of %d ns, trial of %d ns", i, s.CPU, s.Span, r.Length)
			}
		}
		counts(t, trial, result)
		for name := range result.Metrics {
			if _, known := load.Describe().Vocabulary().Lookup(name); !known {
				t.Errorf("metric %q is not declared", name)
			}
			if !slices.Contains(load.Describe().Metrics, name) {
				t.Errorf("metric %q is not among those that the description names", name)
			}
		}
	}
}

// counts checks that nothing is received that was not sent, and that loss is the difference. The side that receives
// counts: the source if there are responses, otherwise the sink; both, if both sides send messages of their own.
func counts(t *testing.T, trial workload.Trial, result workload.Result) {
	t.Helper()
	var sent, received int64
	for i, s := range trial.Sources {
		sink := trial.Sinks[i]
		asked, came := s.Sent, max(s.Received, sink.Received)
		if sink.Sent > 0 && s.Received > 0 {
			asked, came = s.Sent+sink.Sent, s.Received+sink.Received
		}
		if came > asked || s.Sent > s.Total {
			t.Errorf("pair %d: received %d of %d sent in the window of %d in all", i, came, asked, s.Total)
		}
		sent += asked
		received += came
	}
	loss, has := result.Metrics["loss"]
	if want := float64(sent-received) / float64(sent); has && math.Abs(loss-want) > 1e-9 {
		t.Errorf("received %d of %d sent in the window, and a loss of %g, want %g", received, sent, loss, want)
	}
}

// noAllocation checks that a whole trial, including arriving and leaving, allocates nothing on any thread.
func noAllocation(t *testing.T, load workload.Workload, given map[string]string) {
	r := NewRig(t, load, Options{Pairs: 1, Length: 100 * time.Millisecond, Given: given})
	r.Trial(t)
	grow := func(n int) uint64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range n {
			if _, err := r.Block(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	// The controller's side of a block allocates the same for one long trial and for a short one; thousands of packets
	// would not.
	witness.Until(t, Borne(), func() error { // on a busy machine some connect anew
		if n := grow(3) / 3; n > 40 {
			return fmt.Errorf("%d allocations in a trial of %v, want only the controller's few", n, r.Length)
		}
		return nil
	})
}

// silentPeer checks that a trial whose other side is silent ends by its deadline, and that a later trial is sound
// again. (It may not be the very next one: if bytes of the silent trial are still under way, the next trial finds them
// and replaces the connection.)
func silentPeer(t *testing.T, load workload.Workload, given map[string]string) {
	for _, side := range []workload.Side{workload.Source, workload.Sink} {
		quiet := true
		r := NewRig(t, load, Options{
			Pairs: 1, Length: 100 * time.Millisecond, Given: given,
			Wrap: func(s workload.Side, _ int, e traffic.Endpoint) traffic.Endpoint {
				if s != side {
					return e
				}
				return &switchable{Endpoint: e, quiet: &quiet}
			},
		})
		watch, start := witness.Begin(t), time.Now()
		timing, err := r.Block(context.Background())
		if err != nil || !timing.Done {
			t.Fatalf("silent %s: %v, %+v", side, err, timing)
		}
		took := time.Since(start)
		if seen := watch.Seen(t); took > r.Length+10*traffic.DrainLimit+seen.Excuse() {
			t.Errorf("silent %s: the trial took %v (%v)", side, took, seen)
		}
		quiet = false
		r.Trial(t)
		sound(t, r)
	}
}

type switchable struct {
	traffic.Endpoint
	quiet *bool
}

func (s *switchable) Run(trial uint64, w traffic.Window) {
	if !*s.quiet {
		s.Endpoint.Run(trial, w)
	}
}

func (s *switchable) Collect() {
	if c, ok := s.Endpoint.(traffic.Collector); ok {
		c.Collect()
	}
}

// endlessPeer checks that a side whose peer goes on for long after the close ends by its deadline.
func endlessPeer(t *testing.T, load workload.Workload, given map[string]string) {
	for _, side := range []workload.Side{workload.Source, workload.Sink} {
		var took atomic.Int64
		r := NewRig(t, load, Options{
			Pairs: 1, Length: 40 * time.Millisecond, Given: given,
			Wrap: func(s workload.Side, _ int, e traffic.Endpoint) traffic.Endpoint {
				if s == side {
					return &shifted{Endpoint: e, by: 15 * traffic.DrainLimit}
				}
				return &shifted{Endpoint: e, took: &took}
			},
		})
		watch := witness.Begin(t)
		if _, err := r.Block(context.Background()); err != nil {
			t.Fatalf("endless %s: %v", side, err)
		}
		seen := watch.Seen(t)
		if after := time.Duration(took.Load()); after > 10*traffic.DrainLimit+seen.Excuse() {
			t.Errorf("endless %s: the other side ended %v after the close (%v)", side, after, seen)
		}
	}
}

// shifted is an endpoint whose windows close later, and which records how long after the close it was done.
type shifted struct {
	traffic.Endpoint
	by   time.Duration
	took *atomic.Int64
}

func (s *shifted) Run(trial uint64, w traffic.Window) {
	w.Close += int64(s.by)
	s.Endpoint.Run(trial, w)
	if s.took != nil {
		s.took.Store(clock.Now() - w.Close)
	}
}

// hang is an endpoint that does not start its trial until it is released.
type hang struct {
	traffic.Endpoint
	until, done chan struct{}
}

func (h *hang) Prepare(trial uint64) {
	<-h.until
	h.Endpoint.Prepare(trial)
	close(h.done)
}

// hangingPeer checks that a thread that does not arrive is named, within the gate's limit.
func hangingPeer(t *testing.T, load workload.Workload, given map[string]string) {
	release, done := make(chan struct{}), make(chan struct{})
	r := NewRig(t, load, Options{
		Pairs: 1, Length: 30 * time.Millisecond, Given: given,
		Wrap: func(s workload.Side, _ int, e traffic.Endpoint) traffic.Endpoint {
			if s == workload.Source {
				return e
			}
			return &hang{e, release, done}
		},
	})
	// The thread arrives too late to measure, but it prepares and empties its sockets. They must not be closed before
	// that. Otherwise the thread would read from whatever gets their numbers next, such as the netlink socket of the
	// next test, and take its answer.
	defer func() {
		close(release)
		<-done
	}()
	start := time.Now()
	_, err := r.Block(context.Background())
	var stalled *traffic.StalledError
	if !errors.As(err, &stalled) || len(stalled.Missing) != 1 ||
		stalled.Missing[0] != (traffic.Seat{Worker: SinkWorker}) || stalled.Opened {
		t.Fatalf("hanging sink: %v (%+v), want the sink's seat named", err, stalled)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("named after %v", took)
	}
}

// interruption checks that a cancelled block ends after its running trial.
func interruption(t *testing.T, load workload.Workload, given map[string]string) {
	const limit = 500 * time.Millisecond
	r := NewRig(t, load, Options{Pairs: 1, Length: 100 * time.Millisecond, Given: given})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	watch, start := witness.Begin(t), time.Now()
	_, err := r.Block(ctx)
	took := time.Since(start)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted block: %v", err)
	}
	if seen := watch.Seen(t); took > limit+seen.Excuse() {
		t.Errorf("interrupted block took %v (%v)", took, seen)
	}
}
