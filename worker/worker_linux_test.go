package worker_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/turntest"
	"github.com/nettoll/nettoll/worker"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/udprr"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) {
	if serveAlone() {
		return
	}
	testnet.Main(m)
}

// entered records the namespaces that workers have entered, on a host whose namespaces all belong to the test.
type entered struct {
	mu    sync.Mutex
	names []string
}

func (e *entered) enter(namespace string, f func() error) error {
	e.mu.Lock()
	e.names = append(e.names, namespace)
	e.mu.Unlock()
	return f()
}

// made returns the methods of a worker that a test calls, with a turn of the test.
func made(t *testing.T, e *entered, turn traffic.Turn) protocol.Methods {
	t.Helper()
	procs, percent := runtime.GOMAXPROCS(0), debug.SetGCPercent(100)
	t.Cleanup(func() { // begin sets these for a process that does nothing else
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(percent)
	})
	return worker.New(worker.Config{
		Workloads: []workload.Workload{udprr.Workload{}},
		Host: worker.Host{
			Enter:    e.enter,
			OpenTurn: func(traffic.Meters) (traffic.Turn, error) { return turn, nil },
			Probed:   func(string) *os.File { return nil },
		},
	}).Methods()
}

func call[Result any](t *testing.T, m protocol.Methods, method string, params any) (result Result, err error) {
	t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	got, err := m[method](t.Context(), raw)
	if err != nil {
		return result, err
	}
	if raw, err = json.Marshal(got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		t.Fatal(err)
	}
	return result, nil
}

// Two workers with a turn in memory measure a trial: they need neither a board nor a directory of namespaces.
func TestTrial(t *testing.T) {
	workloadtest.Loopback(t)
	turns, e := &turntest.Fake{}, &entered{}
	sides := []workload.Side{workload.Source, workload.Sink}
	load := udprr.Workload{}
	params, err := load.Describe().Params.Resolve(load.Describe().Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := map[workload.Side]netip.AddrPort{}
	for _, side := range sides {
		at[side] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), workloadtest.FreePort())
	}
	workers := map[workload.Side]protocol.Methods{}
	for number, side := range sides {
		workers[side] = made(t, e, turns)
		begin := worker.BeginParams{Worker: number, Pairs: 1, Run: 1}
		if _, err := call[any](t, workers[side], worker.Begin, begin); err != nil {
			t.Fatal(err)
		}
	}
	if err := turns.SetCell(0, traffic.CellPlan{
		Workers: []int{0, 1}, Threads: []int{1, 1}, Warm: 10 * time.Millisecond, Length: 60 * time.Millisecond,
	}); err != nil {
		t.Fatal(err)
	}
	for _, side := range []workload.Side{workload.Sink, workload.Source} {
		other := workload.Source
		if side == workload.Source {
			other = workload.Sink
		}
		spec := worker.EndpointSpec{Namespace: "ns of " + string(side), Spec: workload.Spec{
			Workload: load.Describe().Name, Params: params, Side: side, Local: at[side], Remote: at[other], Seed: 1,
			LocalPorts: 1, RemotePorts: 1,
		}}
		open := worker.OpenParams{Endpoints: []worker.EndpointSpec{spec}}
		if _, err := call[any](t, workers[side], worker.Open, open); err != nil {
			t.Fatal(err)
		}
	}
	for _, side := range sides {
		if _, err := call[any](t, workers[side], worker.Ready, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"ns of source", "ns of sink"} {
		if !slices.Contains(e.names, want) {
			t.Errorf("entered %q, want %q among them", e.names, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := turns.Run(ctx, []int{0}, func(int) int { return 1 }); err != nil {
		t.Fatal(err)
	}
	samples, err := call[[]worker.CellSamples](t, workers[workload.Source], worker.Collect,
		worker.CollectParams{Visits: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) != 1 || len(samples[0].Samples) != 1 || samples[0].Samples[0].Received == 0 {
		t.Errorf("a trial of a pair left %+v", samples)
	}
}

// A request that a worker refuses does not change the worker.
func TestRefused(t *testing.T) {
	w := made(t, &entered{}, &turntest.Fake{})
	if _, err := call[any](t, w, worker.Open, worker.OpenParams{
		Endpoints: []worker.EndpointSpec{{Spec: workload.Spec{Workload: "udp-rr"}}},
	}); err == nil || !strings.Contains(err.Error(), "seat 0") {
		t.Errorf("open before begin: %v", err)
	}
	if _, err := call[any](t, w, worker.Begin, worker.BeginParams{Pairs: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := call[any](t, w, worker.Begin, worker.BeginParams{Pairs: 1}); err == nil {
		t.Error("began twice")
	}
	for want, spec := range map[string]worker.EndpointSpec{
		"seat 1":                       {Seat: 1},
		`unknown workload "ping pong"`: {Spec: workload.Spec{Workload: "ping pong"}},
		`unknown driver "wrk2"`:        {Spec: workload.Spec{Workload: "udp-rr", Driver: "wrk2"}},
	} {
		_, err := call[any](t, w, worker.Open, worker.OpenParams{Endpoints: []worker.EndpointSpec{spec}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open %+v: %v, want %q", spec, err, want)
		}
	}
}
