package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/worker"
	"github.com/nettoll/nettoll/workload"
)

const (
	networkName = "bridge"
	mtu         = 1500
	congestion  = "cubic" // of both sides' streams

	firstPort = 20000
	lastPort  = 60000
	portsEach = 500 // for each endpoint: its connections leave their ports in TIME_WAIT

	settle = 20 * time.Millisecond

	departure = "departure_error_p99"
)

// wanted returns the spec of a lab of one host with this number of pairs, sources first.
func wanted(parts catalogue.Catalogue, pairs int, seed uint64) (deploy.Spec, error) {
	joined, err := parts.Kinds.Choose("network", networkName, nil)
	if err != nil {
		return deploy.Spec{}, err
	}
	s := deploy.Spec{ID: networkName, Net: network.NewLab(1, mtu), Families: []string{"ipv4"}}
	if s.Stack, err = parts.Kinds.Complete(stack.Stack{joined}); err != nil {
		return deploy.Spec{}, err
	}
	s.Net.Seed = seed
	one := &s.Net.Hosts[0]
	for _, side := range []string{"src", "snk"} {
		for pair := range pairs {
			one.Containers = append(one.Containers, network.Container{
				Name: fmt.Sprintf("%s%d", side, pair), Index: len(one.Containers),
			})
		}
	}
	return s, nil
}

// A cell is a workload to measure.
type cell struct {
	asked    string // the argument of newCell
	id       string // as in cell ids
	workload workload.Workload
	driver   driver.Driver // nil: nettoll's own engine
	params   part.Params
	warm     time.Duration
	length   time.Duration // of a trial
}

// newCell reads "udp-rr(mode=spin)" or, for a foreign program, "udp-rr(mode=spin,driver=sockperf)". visit is how long
// it measures. In trials of nettoll's own engine, warm of that passes before the window opens. Foreign programs choose
// their own warm-up, and need time to start.
func newCell(parts catalogue.Catalogue, id string, warm, visit time.Duration) (cell, error) {
	name, given, err := part.Parse("workload", id)
	if err != nil {
		return cell{}, err
	}
	w, err := parts.Parts().Workload(name)
	if err != nil {
		return cell{}, err
	}
	by, foreign := given["driver"]
	delete(given, "driver")
	d := w.Describe()
	params, err := d.Resolve(given)
	if err != nil {
		return cell{}, err
	}
	c := cell{asked: id, id: d.ID(params), workload: w, params: params, warm: warm, length: visit}
	if !foreign {
		return c, nil
	}
	if c.driver, err = parts.Parts().Driver(by); err != nil {
		return cell{}, err
	}
	c.id = d.DrivenID(params, by)
	c.length = c.driver.Trial(d, params) + (visit - time.Second).Truncate(time.Second)
	return c, c.driver.Serves(d, params)
}

// A lab is a lab with one pair of containers, built and driven as package control does it.
type lab struct {
	stage   deploy.Generation
	stands  deploy.Lab
	ends    []network.Endpoint // of source and sink
	cpus    [][]int            // likewise
	workers []host.Worker      // likewise
	cells   []cell
	turns   traffic.Turns
	ports   []int // blocks of ports that are not used yet
}

// openLab builds a lab of one host and opens the sockets of all cells.
func openLab(ctx context.Context, b *bench, cells []cell) (*lab, error) {
	s, err := wanted(b.parts, 1, b.random.Uint64())
	if err != nil {
		return nil, err
	}
	return openLabOf(ctx, b, s, cells)
}

// openLabOf opens a lab whose source is the first container of host 1. Its sink is the first container of host 2 or, if
// there is no host 2, the second one of host 1.
func openLabOf(ctx context.Context, b *bench, s deploy.Spec, cells []cell) (_ *lab, err error) {
	l := &lab{
		cells: cells, cpus: [][]int{b.sources, b.sinks}, ports: b.random.Perm((lastPort - firstPort) / portsEach),
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := l.layOut(); err != nil {
		return nil, err
	}
	if l.stands, err = l.stage.Build(ctx, s); err != nil {
		return nil, err
	}
	l.ends = slices.Concat(l.stands.Site().Endpoints...)
	for i, side := range sides() {
		w, err := l.stands.Start(ctx, min(i+1, len(s.Net.Hosts)), host.WorkerSpec{ID: string(side), CPUs: l.cpus[i]})
		if err != nil {
			return nil, err
		}
		l.workers = append(l.workers, w)
		if err := w.Call(ctx, worker.Begin, worker.BeginParams{
			Worker: i, Pairs: 1, CPUs: l.cpus[i], Run: 1, Alone: !slices.Equal(l.cpus[0], l.cpus[1]),
		}, nil); err != nil {
			return nil, err
		}
	}
	return l, l.open(ctx)
}

// sides returns source and sink, in the order of their places on the board, among the workers and the endpoints.
func sides() []workload.Side { return []workload.Side{workload.Source, workload.Sink} }

// layOut creates the board of turns.
func (l *lab) layOut() (err error) {
	l.stage, err = new(local.Deployment).Begin(traffic.Layout{Workers: 2, Pairs: 1, Cells: len(l.cells)})
	if err != nil {
		return err
	}
	l.turns = l.stage.Turns()
	for i, c := range l.cells {
		if err := l.turns.SetCell(i, traffic.CellPlan{
			Workers: []int{0, 1}, Threads: []int{1, 1}, Warm: c.warm, Length: c.length,
		}); err != nil {
			return err
		}
	}
	return nil
}

// port returns the first port of a block that was not used before in this lab.
func (l *lab) port() uint16 {
	p := l.ports[0]
	l.ports = l.ports[1:]
	return uint16(firstPort + p*portsEach)
}

// open opens the endpoints of all cells, sinks before sources.
func (l *lab) open(ctx context.Context) error {
	open := make([]worker.OpenParams, 2)
	for i, c := range l.cells {
		at := []netip.AddrPort{netip.AddrPortFrom(l.ends[0].IPv4, l.port()), netip.AddrPortFrom(l.ends[1].IPv4, l.port())}
		by := ""
		if c.driver != nil {
			by = c.driver.Describe().Name
		}
		for s, side := range sides() {
			open[s].Endpoints = append(open[s].Endpoints, worker.EndpointSpec{
				Cell: i, Visit: i, Namespace: l.ends[s].Namespace,
				Spec: workload.Spec{
					Workload: c.workload.Describe().Name, Driver: by, Params: c.params, Side: side, Local: at[s], Remote: at[1-s],
					LocalPorts: portsEach, RemotePorts: portsEach, Congestion: congestion,
				},
			})
		}
	}
	for _, s := range []int{1, 0} {
		if err := l.workers[s].Call(ctx, worker.Open, open[s], nil); err != nil {
			return err
		}
	}
	for _, w := range l.workers {
		if err := w.Call(ctx, worker.Ready, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// facts returns what the kernel granted the sockets of each cell.
func (l *lab) facts(ctx context.Context) ([]worker.EndpointFacts, error) {
	var all []worker.EndpointFacts
	for _, w := range l.workers {
		var facts []worker.EndpointFacts
		if err := w.Call(ctx, worker.Facts, nil, &facts); err != nil {
			return nil, err
		}
		all = append(all, facts...)
	}
	return all, nil
}

// visit makes one trial of a cell. It returns its metrics and, if it was recorded, the 99th percentile of how late
// messages left.
func (l *lab) visit(ctx context.Context, number int) (map[string]float64, error) {
	timings, err := l.turns.Run(ctx, []int{number}, func(int) int { return 1 })
	if err != nil {
		return nil, err
	}
	c := l.cells[number]
	t := workload.Trial{Params: c.params, Length: c.length, Window: c.length - c.warm, Softirqd: timings[0].Softirqd}
	for i, w := range l.workers {
		var samples []worker.CellSamples
		if err := w.Call(ctx, worker.Collect, worker.CollectParams{Visits: []int{number}}, &samples); err != nil {
			return nil, err
		}
		if len(samples) != 1 || len(samples[0].Samples) != 1 {
			return nil, fmt.Errorf("%s of %s left no sample", sides()[i], c.id)
		}
		if i == 0 {
			t.Sources = samples[0].Samples
		} else {
			t.Sinks = samples[0].Samples
		}
		if err := t.AddHistograms(samples[0].Histograms); err != nil {
			return nil, err
		}
	}
	if failure := t.Failure(); failure != "" {
		return nil, fmt.Errorf("%s: %s", c.id, failure)
	}
	metrics := c.workload.Metrics(t.Settled()).Metrics
	if all := t.Sources[0].CPU + t.Sinks[0].CPU + int64(t.Softirqd); all > 0 {
		metrics[own] = float64(t.Sources[0].User) / float64(all)
	}
	if late := t.Histograms[traffic.Departure]; late != nil {
		metrics[departure] = float64(late.ValueAtQuantile(99)) / 1e9
	}
	return metrics, nil
}

// close ends the lab and everything in it.
func (l *lab) close() {
	if l.stands != nil {
		l.stands.Close()
	}
	if l.stage != nil {
		_ = l.stage.Close() // the rest goes with the process
	}
}
