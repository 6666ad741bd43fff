package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/thread"
)

// programs are what a run starts, by what its record calls them: their versions.
type programs map[string]string

// add asks the programs that a cell takes for their versions. The error is a [linux.UnsupportedError] where one is not
// installed.
func (p programs) add(ctx context.Context, c experiment.Cell) error {
	if c.Driver != nil {
		name := c.Driver.Describe().Name
		if p[name] == "" {
			v, err := driver.Version(ctx, c.Driver)
			if err != nil {
				return err
			}
			p[name] = v
		}
		if !c.Driver.Describe().SourceOnly {
			return nil // it has a server of its own
		}
	}
	for _, needed := range c.Workload.Describe().Needs(c.Params) {
		if p[needed.Program] != "" {
			continue
		}
		v, err := needed.Version(ctx)
		if err != nil {
			return err
		}
		if v != "" {
			p[needed.Program] = v
		}
	}
	return nil
}

// lacking splits an experiment: what can be measured here, and the workloads that take a program which is not
// installed. These are left out with their reason, and the rest is measured; where there is no rest, the reasons are
// the error. It is asked before anything is built. An experiment that lacks nothing is returned as it is.
func (l library) lacking(ctx context.Context, r *experiment.Resolved, of build) (can *experiment.Resolved,
	found programs, lacking []experiment.Omission, err error,
) {
	found = programs{"nettoll": of.versionText()}
	var reasons []error
	for can = r; ; {
		missing, err := found.missing(ctx, can)
		if err != nil {
			return nil, nil, nil, err
		}
		if len(missing) == 0 {
			can.Omitted = append(can.Omitted, lacking...)
			return can, found, lacking, nil
		}
		rest := can.Experiment
		rest.Workloads = nil
		for i, load := range can.Experiment.Workloads {
			m, gone := missing[i]
			if !gone {
				rest.Workloads = append(rest.Workloads, load)
				continue
			}
			lacking = append(lacking, m.omission)
			if !slices.ContainsFunc(reasons, func(other error) bool { return other.Error() == m.reason.Error() }) {
				reasons = append(reasons, m.reason)
			}
		}
		if len(rest.Workloads) == 0 {
			return nil, nil, nil, errors.Join(reasons...)
		}
		cpus, err := thread.CPUs()
		if err != nil {
			return nil, nil, nil, err
		}
		// What is left may have been left out before, as asked for twice: it is looked at again.
		if can, err = experiment.Resolve(rest, l.catalogue.Parts(), len(cpus)); err != nil {
			return nil, nil, nil, errors.Join(append(reasons, err)...)
		}
	}
}

// missing is why a workload cannot be measured here.
type missing struct {
	omission experiment.Omission
	reason   error
}

// missing finds the workloads that take a program which is not installed, by their place in the experiment.
func (p programs) missing(ctx context.Context, r *experiment.Resolved) (map[int]missing, error) {
	list := map[int]missing{}
	for _, c := range r.Cells {
		if _, gone := list[c.Asked]; gone {
			continue
		}
		err := p.add(ctx, c)
		if _, lacks := errors.AsType[*linux.UnsupportedError](err); !lacks && err != nil {
			return nil, err
		}
		if err == nil {
			continue
		}
		what := c.Workload.Describe().ID(c.Params)
		if len(c.Mix) > 0 {
			what = "mix(" + strings.Join(c.Mix, ",") + ")"
		}
		list[c.Asked] = missing{experiment.Omission{What: what, Reason: err.Error()}, err}
	}
	return list, nil
}
