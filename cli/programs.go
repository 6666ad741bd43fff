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
// the error. It is asked before anything is built.
func (a *app) lacking(ctx context.Context, r *experiment.Resolved) (can *experiment.Resolved, found programs,
	lacking []experiment.Omission, err error,
) {
	found = programs{"nettoll": a.versionText()}
	gone := map[int]bool{} // workloads of the experiment, by their place in it
	cpus, err := thread.CPUs()
	if err != nil {
		return nil, nil, nil, err
	}
	var reasons []error
	for i := range r.Experiment.Workloads {
		one := r.Experiment
		one.Workloads = one.Workloads[i : i+1]
		alone, err := experiment.Resolve(one, a.catalogue.Parts(), len(cpus))
		if err != nil {
			continue // it is left out anyway: of the others something is left
		}
		for _, c := range alone.Cells {
			err := found.add(ctx, c)
			if _, missing := errors.AsType[*linux.UnsupportedError](err); !missing && err != nil {
				return nil, nil, nil, err
			}
			if err == nil {
				continue
			}
			gone[i] = true
			if !slices.ContainsFunc(reasons, func(other error) bool { return other.Error() == err.Error() }) {
				reasons = append(reasons, err)
			}
			what := c.Workload.Describe().ID(c.Params)
			if len(c.Mix) > 0 {
				what = "mix(" + strings.Join(c.Mix, ",") + ")"
			}
			lacking = append(lacking, experiment.Omission{What: what, Reason: err.Error()})
			break
		}
	}
	if len(gone) == 0 {
		return r, found, nil, nil
	}
	rest := r.Experiment
	rest.Workloads = nil
	for i, load := range r.Experiment.Workloads {
		if !gone[i] {
			rest.Workloads = append(rest.Workloads, load)
		}
	}
	if len(rest.Workloads) == 0 {
		return nil, nil, nil, errors.Join(reasons...)
	}
	if can, err = experiment.Resolve(rest, a.catalogue.Parts(), len(cpus)); err != nil {
		return nil, nil, nil, errors.Join(append(reasons, err)...)
	}
	can.Omitted = append(can.Omitted, lacking...)
	return can, found, lacking, nil
}
