package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
)

const (
	oneHost  = "one host"
	twoHosts = "two hosts"
	// tryLimit is the longest that a try may take. Most take less than half a second; those of drivers take seconds.
	tryLimit = 20 * time.Second
	// atOnce is how many tries run at the same time. They yield no figures, and most of their time is waiting for the
	// kernel and for programs.
	atOnce = 16
)

// tries runs the tries of doctor.
type tries struct {
	library
	stderr  io.Writer // shows the progress
	refused error     // why hosts cannot be built here; nil if they can
	parts   []*diagnosed
	jobs    []func() // tries that wait will run
	all     int      // number of tries

	mu    sync.Mutex // guards the fields below
	ended int        // number of tries
	under []string   // tries that run now, as "KIND NAME (WAY)", oldest first
	again []func()   // tries that failed, perhaps because the others kept the machine busy
}

// wait runs all tries added so far. It repeats a try once, alone, if it failed although nothing is missing here.
func (t *tries) wait() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var group errgroup.Group
		group.SetLimit(atOnce)
		// The last jobs take longest, those of drivers above all: their programs count in seconds.
		for _, job := range slices.Backward(t.jobs) {
			group.Go(func() error {
				job()
				return nil
			})
		}
		_ = group.Wait() // jobs return no errors: errors are results
		for _, try := range t.again {
			try()
		}
	}()
	t.watch(ended)
	t.jobs, t.again = nil, nil
}

// watch shows the progress until the tries have ended.
func (t *tries) watch(ended <-chan struct{}) {
	line := newLine(t.stderr)
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

func (t *tries) add(kind, name, implementation string) *diagnosed {
	d := &diagnosed{Kind: kind, Name: name, Implementation: implementation}
	t.parts = append(t.parts, d)
	return d
}

// try adds a job that tries one way to use a part.
func (t *tries) try(ctx context.Context, d *diagnosed, what string, s control.Sample) {
	result := &attempt{What: what}
	d.Tried = append(d.Tried, result)
	if t.refused != nil {
		result.explain(t.refused)
		return
	}
	name := fmt.Sprintf("%s %s (%s)", d.Kind, d.Name, what)
	once := func() error {
		t.mu.Lock()
		t.under = append(t.under, name)
		t.mu.Unlock()
		ctx, cancel := context.WithTimeoutCause(ctx, tryLimit, fmt.Errorf("it took longer than %v", tryLimit))
		defer cancel()
		at := here(os.Geteuid())
		who, err := control.Try(ctx, s, at)
		err = errors.Join(err, at.Close())
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
			t.again = append(t.again, func() { _ = once() }) // the result holds the error
		}
	})
}

// tryAll tries every part and returns the results: those of each kind, then workloads, drivers and probes.
func tryAll(ctx context.Context, stderr io.Writer, lib library, refused error) []*diagnosed {
	parts := lib.catalogue.Parts()
	t := &tries{stderr: stderr, library: lib, refused: refused}
	simple := control.Sample{
		Parts: parts, Stack: experiment.Base(parts).Baseline.Parts, Workload: parts.Workloads[0], Hosts: 1,
	}
	var makers []*diagnosed // runtimes, which make containers
	for _, kind := range parts.Kinds {
		name := kind.Describe().Name
		for _, p := range kind.Parts() {
			d := t.add(name, p.Name, p.Implementation)
			switch p.Value.(type) {
			case network.Network:
				t.network(ctx, d, simple)
			case network.Carrier:
				t.between(ctx, d, simple, stack.PartsOf[network.Network](parts.Kinds))
			case runtime.Runtime:
				makers = append(makers, d) // tried below: it makes something only if containers have namespaces of their own
			default:
				t.on(ctx, d, simple, stack.PartsOf[network.Network](parts.Kinds))
			}
		}
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
	joined := simple
	for _, d := range t.parts {
		n, err := parts.Kinds.Choose(d.Kind, d.Name, nil)
		if _, ok := n.Part.Value.(network.Network); err == nil && ok && d.works(oneHost) && n.ID() != simple.Stack[0].ID() {
			joined.Stack = simple.Stack.With(n)
			break
		}
	}
	for _, d := range makers {
		if c, ok := t.choose(d, d.Kind, d.Name, nil); ok {
			s := joined
			s.Stack = joined.Stack.With(c)
			t.try(ctx, d, "a container", s)
			s.Stack = joined.Stack
			t.values(ctx, d, c, s)
		}
	}
	t.wait()
	for _, p := range parts.Probes {
		d := t.add("probe", p.Describe().Name, p.Describe().Implementation)
		probed := &attempt{What: p.Describe().Switches}
		d.Tried = append(d.Tried, probed)
		if probed.explain(refused); refused == nil {
			probed.explain(control.TryProbe(p, &local.Deployment{}))
		}
	}
	for _, d := range t.parts {
		d.Works = slices.ContainsFunc(d.Tried, func(t *attempt) bool { return t.Works }) &&
			!slices.ContainsFunc(d.Tried, (*attempt).failed)
	}
	return t.parts
}

// choose returns a part with these parameters. If they are invalid, it adds a failed attempt and returns false.
func (t *tries) choose(d *diagnosed, kind, name string, given map[string]string) (stack.Choice, bool) {
	c, err := t.catalogue.Kinds.Choose(kind, name, given)
	if err != nil {
		result := &attempt{What: name}
		result.explain(err)
		d.Tried = append(d.Tried, result)
	}
	return c, err == nil
}

// network tries a network on one host and on two, and once with each other value of its parameters, such as modes and
// ways to attach.
func (t *tries) network(ctx context.Context, d *diagnosed, s control.Sample) {
	simple := s.Stack
	c, ok := t.choose(d, d.Kind, d.Name, nil)
	if !ok {
		return
	}
	s.Stack = simple.With(c)
	for i, what := range []string{oneHost, twoHosts} {
		s.Hosts = i + 1
		if reason := left(s); reason != "" {
			d.Tried = append(d.Tried, &attempt{What: what, LeftOut: reason})
			continue
		}
		t.try(ctx, d, what, s)
	}
	s.Stack = simple
	t.values(ctx, d, c, s)
	if of, ok := c.Part.Value.(network.Trier); ok {
		for _, p := range of.Tries() {
			t.value(ctx, d, s, p[0], p[1])
		}
	}
}

// between tries a carrier between two hosts, once with each other value of its parameters, under the first network
// whose packets it can carry.
func (t *tries) between(ctx context.Context, d *diagnosed, s control.Sample, networks []network.Network) {
	simple := s.Stack
	c, ok := t.choose(d, d.Kind, d.Name, nil)
	if !ok {
		return
	}
	s.Hosts = 2
	for _, n := range networks {
		joined, ok := t.choose(d, simple[0].Kind.Describe().Name, n.Describe().Name, nil)
		if !ok {
			return
		}
		s.Stack = simple.With(joined).With(c)
		if left(s) == "" {
			t.try(ctx, d, twoHosts, s)
			s.Stack = simple.With(joined)
			t.values(ctx, d, c, s)
			return
		}
	}
	d.Tried = append(d.Tried, &attempt{What: twoHosts, LeftOut: left(s)})
}

// values tries a part once with each other value of its parameters, besides the stack of the sample. A value is tried
// on one host, or on two if it means nothing on one.
func (t *tries) values(ctx context.Context, d *diagnosed, c stack.Choice, s control.Sample) {
	for _, p := range c.Part.Params {
		if p.Quiet || p.Values == nil {
			continue
		}
		for _, value := range p.Values {
			if value != p.Default {
				t.value(ctx, d, s, p.Name, value)
			}
		}
	}
}

// value tries a part with a value of a parameter.
func (t *tries) value(ctx context.Context, d *diagnosed, s control.Sample, name, value string) {
	with, ok := t.choose(d, d.Kind, d.Name, map[string]string{name: value})
	if !ok {
		return
	}
	s.Stack, s.Hosts = s.Stack.With(with), 1
	if left(s) != "" {
		s.Hosts = 2
	}
	if reason := left(s); reason != "" {
		d.Tried = append(d.Tried, &attempt{What: name + "=" + value, LeftOut: reason})
		return
	}
	t.try(ctx, d, name+"="+value, s)
}

// on tries a part of another kind, such as a filter, on each network on one host. If a network means nothing on one
// host by default, on takes the first value of a parameter with which it does.
func (t *tries) on(ctx context.Context, d *diagnosed, s control.Sample, networks []network.Network) {
	simple := s.Stack
	c, ok := t.choose(d, d.Kind, d.Name, nil)
	if !ok {
		return
	}
	for _, n := range networks {
		name := n.Describe().Name
		joined, ok := t.joined(d, simple[0].Kind.Describe().Name, n)
		if _, filterable := n.(network.Filterable); !ok || !filterable {
			continue
		}
		s.Stack = simple.With(joined)
		if left(s) != "" {
			continue
		}
		s.Stack = s.Stack.With(c)
		if reason := left(s); reason != "" {
			d.Tried = append(d.Tried, &attempt{What: under + name, LeftOut: reason})
			continue
		}
		t.try(ctx, d, under+name, s)
	}
}

// joined returns a network with parameters with which it means something on one host.
func (t *tries) joined(d *diagnosed, kind string, n network.Network) (stack.Choice, bool) {
	desc := n.Describe()
	c, ok := t.choose(d, kind, desc.Name, nil)
	x, can := n.(network.Excluder)
	if !ok || !can || x.Exclude(1, c.Params) == "" {
		return c, ok
	}
	for _, p := range desc.Params {
		for _, value := range p.Values {
			if with, err := t.catalogue.Kinds.Choose(kind, desc.Name, map[string]string{p.Name: value}); err == nil &&
				x.Exclude(1, with.Params) == "" {
				return with, true
			}
		}
	}
	return c, true
}

// left returns why a sample means nothing; "" if it means something.
func left(s control.Sample) string {
	made, err := s.Parts.Kinds.Complete(s.Stack)
	if err != nil {
		return err.Error()
	}
	return made.Refuse(s.Hosts)
}

// serves reports whether a driver can drive a workload, with the default parameters or with those that the driver
// needs.
func serves(d driver.Driver, w workload.Description) bool {
	params, err := w.Resolve(d.Describe().Needs[w.Name])
	return err == nil && d.Serves(w, params) == nil
}
