package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
)

// A Sample is the smallest lab in which parts can be tried: one pair, one trial of one workload, every parameter as by
// default.
type Sample struct {
	Parts    experiment.Parts
	Stack    stack.Stack // what is not as by default
	Workload workload.Workload
	Driver   driver.Driver // nil: nettoll's own engine; else parameters are as it needs them
	Hosts    int           // 1: both ends on one host; 2: one on each
}

const (
	// tryTrial is how long the one trial is: that shows that traffic flows, on a busy machine too, also of a game with 20
	// rounds a second; no figure is taken from it.
	tryTrial = 150 * time.Millisecond
	tryMTU   = 1500 // bytes
)

// resolve makes an experiment of a sample.
func (s Sample) resolve() (*experiment.Resolved, error) {
	made, err := s.Parts.Kinds.Complete(s.Stack)
	if err != nil {
		return nil, err
	}
	w := s.Workload.Describe()
	var needs map[string]string
	if s.Driver != nil {
		needs = s.Driver.Describe().Needs[w.Name]
	}
	ofWorkload, err := w.Resolve(needs)
	if err != nil {
		return nil, err
	}
	trial := tryTrial
	if w.Whole {
		trial = w.Trial(ofWorkload)
	}
	if s.Driver != nil {
		if err := s.Driver.Serves(w, ofWorkload); err != nil {
			return nil, err
		}
		trial = s.Driver.Trial(w, ofWorkload)
	}
	placement := experiment.SameHost
	if s.Hosts > 1 {
		placement = experiment.CrossHost
	}
	affinity := experiment.Affinities()[0]
	named := s.Parts.Kinds.ID(made)
	lab := experiment.Lab{
		ID: fmt.Sprintf("%s/%s/1", named, placement), Named: named, Stack: made, Placement: placement, Pairs: 1,
		Affinity: affinity, Hosts: s.Hosts,
	}
	cell := experiment.Cell{
		Cell: measure.Cell{
			ID: lab.ID + "/" + w.ID(ofWorkload), Placement: string(placement), Pairs: 1,
			Family: experiment.Families()[0], Affinity: affinity, Workload: w.Name, Params: ofWorkload,
			Primary: w.Primary(ofWorkload),
		},
		Workload: s.Workload, Driver: s.Driver, Params: ofWorkload, Trial: trial,
		Warm: time.Duration(w.Warm * float64(trial)),
	}
	e := experiment.Base(s.Parts)
	e.Tune.MTU = tryMTU
	visit := experiment.Visit{ID: cell.ID, Cells: []int{0}}
	return &experiment.Resolved{
		Experiment: e, Labs: []experiment.Lab{lab}, Cells: []experiment.Cell{cell}, Visits: []experiment.Visit{visit},
	}, nil
}

// Try builds a sample as a run does, proves that its pair passes packets of full size and, where there is a filter,
// nothing else, has its workload a trial, and removes everything. It returns who did the work, by kind of part, where
// that was found out when it was built, and what did not work: a [linux.UnsupportedError] where the machine lacks
// something.
//
// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
func Try(ctx context.Context, s Sample, at deploy.Deployment) (map[string]string, error) {
	resolved, err := s.resolve()
	if err != nil {
		return nil, err
	}
	c := &configurator{resolved: resolved, deployment: at}
	if c.cpus, err = at.CPUs(ctx); err != nil {
		return nil, err
	}
	cells := []int{0}
	answers, err := c.ask(ctx, cells)
	if err != nil {
		return nil, err
	}
	if answers[0] != nil {
		return nil, answers[0]
	}
	g, failed, err := c.build(ctx, 0, cells)
	if err != nil {
		return nil, errors.Join(err, joined(failed))
	}
	defer g.close()
	if len(failed) > 0 {
		return nil, joined(failed)
	}
	p, silent := g.labs[0].prove(ctx, g.labs[0].mtu)
	if silent != nil {
		return nil, silent
	}
	if b := broken(p); b != nil {
		return nil, fmt.Errorf("proof failed: %s: %s", b.Claim, b.Detail)
	}
	control := &workloadControl{cells: resolved.Cells, visits: resolved.Visits}
	trials, err := control.run(ctx, g, []int{0})
	switch {
	case err != nil:
		return nil, err
	case len(trials) == 0:
		return nil, errors.New("the trial did not end")
	case trials[0].failure != "":
		return nil, errors.New(trials[0].failure)
	}
	who := map[string]string{}
	for _, t := range g.labs[0].stands.Reports() {
		maps.Copy(who, t.Implementations)
	}
	return who, nil
}

// CPUs returns on which CPUs of a deployment's hosts an experiment has its sources and its sinks by default.
func CPUs(ctx context.Context, at deploy.Deployment) (sources, sinks []int, err error) {
	cpus, err := at.CPUs(ctx)
	if err != nil {
		return nil, nil, err
	}
	p, err := place(experiment.Affinities()[0], cpus)
	return p.sources, p.sinks, err
}
