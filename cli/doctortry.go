package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/workload"
)

const (
	oneHost  = "one host"
	twoHosts = "two hosts"
	// tryLimit is how long one try may take. Most take less than half a second, those of drivers seconds.
	tryLimit = 20 * time.Second
	// atOnce is how many are tried at the same time: no figure is taken from them, and most of what they do is waiting, for the kernel and for programs.
	atOnce = 16
)

// tries are parts on trial.
type tries struct {
	a     *app
	parts []*diagnosed
	jobs  []func() // that wait does
	all   int      // tries there are

	mu    sync.Mutex // of what follows
	ended int        // of the tries
	under []string   // way: what is tried just now, oldest first
	again []func()   // what failed, perhaps because the machine is busy with the others
}

// wait does all tries that there are by now. What failed is tried once more, alone.
func (t *tries) wait() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var group errgroup.Group
		group.SetLimit(atOnce)
		// The last ones take longest, drivers before all: their programs count in seconds.
		for _, job := range slices.Backward(t.jobs) {
			group.Go(func() error {
				job()
				return nil
			})
		}
		_ = group.Wait() // it has no errors: they are results
		for _, try := range t.again {
			try()
		}
	}()
	t.watch(ended)
	t.jobs, t.again = nil, nil
}

// watch shows how far the tries are until they have ended.
func (t *tries) watch(ended <-chan struct{}) {
	line := newLine(t.a.Err)
	defer line.done()
	every := triedEvery
	if line.terminal {
		every = barEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			t.mu.Lock()
			n, under := t.ended, slices.Clone(t.under)
			t.mu.Unlock()
			line.tried(n, t.all, under)
		}
	}
}

// add adds a part.
func (t *tries) add(kind, name, implementation string) *diagnosed {
	d := &diagnosed{Kind: kind, Name: name, Implementation: implementation}
	t.parts = append(t.parts, d)
	return d
}

// try has wait try one way to use a part.
func (t *tries) try(ctx context.Context, d *diagnosed, what string, s control.Sample) {
	result := &attempt{What: what}
	d.Tried = append(d.Tried, result)
	if t.a.refused != nil {
		result.explain(t.a.refused)
		return
	}
	name := fmt.Sprintf("%s %s (%s)", d.Kind, d.Name, what)
	once := func() error {
		t.mu.Lock()
		t.under = append(t.under, name)
		t.mu.Unlock()
		ctx, cancel := context.WithTimeoutCause(ctx, tryLimit, fmt.Errorf("it took longer than %v", tryLimit))
		defer cancel()
		who, err := control.Try(ctx, s, startLocal)
		result.explain(err)
		result.By = who[d.Kind]
		t.mu.Lock()
		t.under = slices.DeleteFunc(t.under, func(other string) bool { return other == name })
		t.mu.Unlock()
		return err
	}
	t.all++
	t.jobs = append(t.jobs, func() {
		err := once()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ended++
		if err != nil && !errors.Is(err, errors.ErrUnsupported) && ctx.Err() == nil {
			t.again = append(t.again, func() { _ = once() }) // the result says it
		}
	})
}

// tryAll tries every part.
func (a *app) tryAll(ctx context.Context) ([]*diagnosed, error) {
	parts := a.catalogue.Parts()
	baseline, err := parts.Network(experiment.Base().Baseline.Network.Name)
	if err != nil {
		return nil, err
	}
	t := &tries{a: a}
	simple := control.Sample{Network: baseline, Runtime: parts.Runtimes[0], Workload: parts.Workloads[0], Hosts: 1}
	for _, n := range parts.Networks {
		d := t.add("network", n.Describe().Name, n.Describe().Implementation)
		for i, what := range []string{oneHost, twoHosts} {
			s := simple
			s.Network, s.Hosts = n, i+1
			if reason := excluded(n, s.Hosts); reason != "" {
				d.Tried = append(d.Tried, &attempt{What: what, LeftOut: reason})
				continue
			}
			t.try(ctx, d, what, s)
		}
		t.variants(ctx, d, simple, n)
	}
	for _, f := range parts.Filters {
		d := t.add("filter", f.Describe().Name, f.Describe().Implementation)
		t.filter(ctx, d, simple, f, parts.Networks)
	}
	var runtimes []*diagnosed
	for _, r := range parts.Runtimes {
		runtimes = append(runtimes, t.add("runtime", r.Describe().Name, r.Describe().Implementation))
	}
	for _, w := range parts.Workloads {
		s := simple
		s.Workload = w
		t.try(ctx, t.add("workload", w.Describe().Name, ""), "a trial", s)
	}
	for _, r := range parts.Drivers {
		d := t.add("driver", r.Describe().Name, "")
		for _, w := range parts.Workloads {
			if serves(r, w.Describe()) {
				s := simple
				s.Workload, s.Driver = w, r
				t.try(ctx, d, w.Describe().Name, s)
			}
		}
	}
	t.wait()
	// A runtime makes something only where containers have namespaces of their own, which is where there is no baseline.
	joined := baseline
	for i, d := range t.parts {
		if d.works(oneHost) && d.Name != baseline.Describe().Name {
			joined = parts.Networks[i]
			break
		}
	}
	for i, r := range parts.Runtimes {
		s := simple
		s.Network, s.Runtime = joined, r
		t.try(ctx, runtimes[i], "a container", s)
	}
	t.wait()
	d := t.add("probe", experiment.Softirq, "ebpf")
	probed := &attempt{What: "tracepoints"}
	d.Tried = append(d.Tried, probed)
	if probed.explain(a.refused); a.refused == nil {
		probed.explain(control.TryProbe())
	}
	for _, d := range t.parts {
		d.Works = slices.ContainsFunc(d.Tried, func(t *attempt) bool { return t.Works }) && !slices.ContainsFunc(d.Tried, (*attempt).failed)
	}
	return t.parts, nil
}

// variants tries a network once with each value of its parameters that is not the default, on one host or, where that means nothing, on two: modes, ways to attach.
func (t *tries) variants(ctx context.Context, d *diagnosed, s control.Sample, n network.Network) {
	for _, p := range n.Describe().Params {
		if p.Quiet || p.Values == nil {
			continue
		}
		for _, value := range p.Values {
			if value == p.Default {
				continue
			}
			s.Network, s.Params, s.Hosts = n, map[string]string{p.Name: value}, 1
			if left(n, s.Params, 1) != "" {
				s.Hosts = 2
			}
			if reason := left(n, s.Params, s.Hosts); reason != "" {
				d.Tried = append(d.Tried, &attempt{What: p.Name + "=" + value, LeftOut: reason})
				continue
			}
			t.try(ctx, d, p.Name+"="+value, s)
		}
	}
}

// filter tries a filter on each network where it can stand, on one host.
func (t *tries) filter(ctx context.Context, d *diagnosed, s control.Sample, f filter.Filter, networks []network.Network) {
	fd := f.Describe()
	ofFilter, err := fd.Params.Resolve("filter "+fd.Name, nil)
	if err != nil {
		return // the catalogue's tests would have found it
	}
	for _, n := range networks {
		g, ok := n.(network.Guarded)
		if !ok {
			continue
		}
		nd := n.Describe()
		var given map[string]string
		if left(n, nil, 1) != "" && slices.Contains(nd.Params.Names(), "hairpin") {
			given = map[string]string{"hairpin": "true"}
		}
		params, err := nd.Params.Resolve("network "+nd.Name, given)
		if err != nil || left(n, given, 1) != "" {
			continue
		}
		at, _ := g.Guarded(params)
		w := filter.Where{Network: nd.Name, Point: at, Hosts: 1}
		if x, ok := n.(network.Translator); ok {
			w.Translated = x.Translates(1, params)
		}
		what := under + nd.Name
		if reason := f.Refuse(w, ofFilter); reason != "" {
			d.Tried = append(d.Tried, &attempt{What: what, LeftOut: reason})
			continue
		}
		s.Network, s.Params, s.Filter, s.Hosts = n, given, f, 1
		t.try(ctx, d, what, s)
	}
}

// left is excluded for a network with some parameters.
func left(n network.Network, given map[string]string, hosts int) string {
	x, ok := n.(network.Excluder)
	if !ok {
		return ""
	}
	params, err := n.Describe().Params.Resolve("", given)
	if err != nil {
		return err.Error()
	}
	return x.Exclude(hosts, params)
}

// excluded returns why a network, with its parameters as by default, means nothing in a lab of so many hosts, "" where it does.
func excluded(n network.Network, hosts int) string { return left(n, nil, hosts) }

// serves says whether a driver can drive a workload with its parameters as by default, or as the driver needs them.
func serves(d driver.Driver, w workload.Description) bool {
	params, err := w.Resolve(d.Describe().Needs[w.Name])
	return err == nil && d.Serves(w, params) == nil
}
