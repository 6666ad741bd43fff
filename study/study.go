package study

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// Options are what every study needs.
type Options struct {
	Parts    experiment.Parts
	Open     func() deploy.Deployment // opens the deployment of a run; each run has its own
	CPUs     int                      // that workers may use
	Out      io.Writer                // gets the tables, in Markdown
	Progress io.Writer                // gets a line for each run
	Seed     uint64
}

// Different is the network that is compared with the baseline when a ratio other than 1 is needed.
const Different = "bridge"

// run measures one experiment; the seed differs from run to run.
func (o *Options) run(ctx context.Context, e experiment.Experiment, with ...func(*control.Options),
) (*control.Outcome, error) {
	o.Seed++
	e.Design.Seed = o.Seed
	resolved, err := experiment.Resolve(e, o.Parts, o.CPUs)
	if err != nil {
		return nil, err
	}
	c := control.Options{Resolved: resolved, Deployment: o.Open()}
	for _, f := range with {
		f(&c)
	}
	out, err := control.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	if out.Interrupted {
		return nil, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	for _, p := range out.Analysis.Proofs {
		if !p.OK {
			return nil, fmt.Errorf("proof of lab %s failed: %s", p.Lab, p.Detail)
		}
	}
	return out, nil
}

// base returns an experiment of one workload on one host: the baseline and its twin.
func (o *Options) base(load experiment.Load, pairs int) experiment.Experiment {
	e := experiment.Base(o.Parts)
	e.Name = "study"
	e.Factors.Pairs = []int{pairs}
	if load.Placements == nil {
		load.Placements = []experiment.Placement{experiment.SameHost}
	}
	e.Workloads = []experiment.Load{load}
	return e
}

// udpRR returns a load of round trips in a mode.
func udpRR(mode string, at ...experiment.Placement) experiment.Load {
	return experiment.Load{Choice: experiment.Choice{Name: "udp-rr", Params: part.Params{"mode": mode}}, Placements: at}
}

// sized sets the payload of a load.
func sized(l experiment.Load, payload int) experiment.Load {
	l.Params["payload"] = strconv.Itoa(payload)
	return l
}

// different returns the stacks to compare with the baseline when a ratio other than 1 is needed.
func (o *Options) different() []stack.Stack {
	c, err := o.Parts.Kinds.Choose("network", Different, nil)
	if err != nil {
		return nil // nothing is compared, and the run reports that
	}
	return []stack.Stack{{c}}
}

// primary returns the rows of the cells' primary metrics that pass a test.
func primary(a measure.Analysis, pass func(*measure.Cell) bool) []measure.Row {
	var rows []measure.Row
	for _, r := range a.Rows {
		if r.Metric == r.Cell.Primary && pass(r.Cell) {
			rows = append(rows, r)
		}
	}
	return rows
}

func isTwin(c *measure.Cell) bool { return c.Twin }

// value returns a row's value in one metric; 0 if there is none.
func value(a measure.Analysis, metric string, pass func(*measure.Cell) bool) float64 {
	for _, r := range a.Rows {
		if r.Metric == metric && pass(r.Cell) {
			return r.Value
		}
	}
	return 0
}

func (o *Options) say(format string, args ...any) {
	fmt.Fprintf(o.Progress, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// percent prints a share of 1 with its sign.
func percent(x float64) string { return fmt.Sprintf("%+.1f %%", 100*x) }
