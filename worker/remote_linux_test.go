package worker_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/host/agent"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/board"
	"github.com/nettoll/nettoll/traffic/remote"
	"github.com/nettoll/nettoll/worker"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/udprr"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// aloneVariable in the environment makes the test binary the process of a worker.
const aloneVariable = "NETTOLL_TEST_WORKER"

// serveAlone is the process of a worker, as nettoll starts it, if this is one.
func serveAlone() bool {
	if os.Getenv(aloneVariable) == "" {
		return false
	}
	given, err := agent.Args(os.Args[1:])
	if err != nil {
		panic(err)
	}
	files, err := process.Inherited(given.Files)
	if err != nil {
		panic(err)
	}
	_ = protocol.Serve(context.Background(), os.Stdin, os.Stdout, worker.New(worker.Config{
		Workloads: []workload.Workload{udprr.Workload{}}, Host: local.Worker(files, ""),
	}).Methods())
	return true
}

// start starts a worker in the network namespace of a place. It ends with the test.
func start(t *testing.T, at workloadtest.Where, files map[string]*os.File) *protocol.Client {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), aloneVariable+"=1")
	process.Pass(cmd, files)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := at.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	client := protocol.Dial(out, in, nil)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = client.Close()
		_ = cmd.Wait() // it was killed
	})
	return client
}

// path is a pair of workers that take turns.
type path struct {
	turns   traffic.Turns
	workers []*protocol.Client // source and sink
	trips   []time.Duration    // mean round trip of each
	timings []traffic.Timing
}

const (
	warm   = 50 * time.Millisecond
	length = 150 * time.Millisecond
)

// lay starts the workers of a pair and opens its endpoints.
func (p *path) lay(t *testing.T, places map[workload.Side]workloadtest.Where) {
	t.Helper()
	load := udprr.Workload{}
	params, err := load.Describe().Params.Resolve(load.Describe().Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := thread.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	sides := []workload.Side{workload.Source, workload.Sink}
	at := map[workload.Side]netip.AddrPort{}
	for number, side := range sides {
		at[side] = netip.AddrPortFrom(places[side].Address, workloadtest.FreePort())
		client := start(t, places[side], p.turns.Files())
		p.workers = append(p.workers, client)
		if r, ok := p.turns.(*remote.Turns); ok {
			r.Join(number, client.Call)
		}
		if err := client.Call(t.Context(), worker.Begin, worker.BeginParams{
			Worker: number, Pairs: 1, Run: 1, CPUs: cpus[number*(len(cpus)-1):][:1],
		}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.turns.SetCell(0, traffic.CellPlan{
		Workers: []int{0, 1}, Threads: []int{1, 1}, Warm: warm, Length: length,
	}); err != nil {
		t.Fatal(err)
	}
	for _, number := range []int{1, 0} { // the sink first
		side := sides[number]
		spec := worker.EndpointSpec{Spec: workload.Spec{
			Workload: load.Describe().Name, Params: params, Side: side, Local: at[side], Remote: at[sides[1-number]], Seed: 1,
			LocalPorts: 1, RemotePorts: 1,
		}}
		if err := p.workers[number].Call(t.Context(), worker.Open, worker.OpenParams{
			Endpoints: []worker.EndpointSpec{spec},
		}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range p.workers {
		if err := w.Call(t.Context(), worker.Ready, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// block runs a block of one trial and keeps what came of it, unless the trial failed.
func (p *path) block(t *testing.T) error {
	t.Helper()
	timings, err := p.turns.Run(t.Context(), []int{0}, func(int) int { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	var samples []worker.CellSamples
	err = p.workers[0].Call(t.Context(), worker.Collect, worker.CollectParams{Visits: []int{0}}, &samples)
	if err != nil || len(samples) != 1 || len(samples[0].Samples) != 1 {
		t.Fatalf("samples of a trial: %v, %+v", err, samples)
	}
	s := samples[0].Samples[0]
	if s.Failure != "" || s.Received == 0 || !timings[0].Done {
		return fmt.Errorf("a trial failed: %+v, %+v", timings[0], s)
	}
	p.timings = append(p.timings, timings...)
	p.trips = append(p.trips, (length-warm)/time.Duration(s.Received))
	return nil
}

func later(x, y traffic.Timing) int { return int(x.Late - y.Late) }

// The same workload between the same network namespaces comes out alike, whether the turn passes through shared memory
// or by calls.
func TestTurnsCompare(t *testing.T) {
	const blocks = 20
	on, err := board.New(traffic.Layout{Workers: 2, Pairs: 1, Cells: 1})
	testnet.Skip(t, err)
	places := workloadtest.Veth(t)
	paths := map[string]*path{"board": {turns: on}, "remote": {turns: remote.New()}}
	for _, p := range paths {
		t.Cleanup(func() { _ = p.turns.Close() }) // after its workers
		p.lay(t, places)
	}
	for range blocks {
		for _, name := range []string{"board", "remote"} {
			witness.Until(t, witness.Limit{Lost: warm / 2}, func() error { return paths[name].block(t) })
		}
	}
	median := map[string]time.Duration{}
	for name, p := range paths {
		slices.Sort(p.trips)
		median[name] = p.trips[blocks/2]
		t.Logf("%s: %d trials done, round trips of %v, quartiles %v to %v, at most %v late", name, len(p.timings),
			median[name], p.trips[blocks/4], p.trips[3*blocks/4], slices.MaxFunc(p.timings, later).Late)
	}
	ratio := float64(median["remote"]) / float64(median["board"])
	t.Logf("round trips of the remote turn / those of the board: %.3f", ratio)
	if ratio < 0.25 || ratio > 4 {
		t.Errorf("round trips differ by a factor of %.2f", ratio)
	}
}
