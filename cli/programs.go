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

// programs maps the programs that a run starts, by their names in its record, to their versions.
type programs map[string]string

// add adds the versions of the programs that a cell needs. The error is a [linux.UnsupportedError] if one is not
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

// lacking looks for programs that are not installed, before anything is built. It returns the experiment without the
// workloads that need one, the versions of the other programs, and the workloads left out with their reasons. If no
// workload is left, the reasons are the error. An experiment that lacks nothing is returned as it is.
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
		// A workload that was left out as a duplicate may now be the only one: resolve again.
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

// missing finds the workloads that need a program which is not installed. The keys are their places in the experiment.
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
