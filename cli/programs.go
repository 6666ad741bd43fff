package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
)

// lacking asks the hosts of a deployment for the programs of an experiment, before anything is built. It returns the
// experiment without the workloads that lack one, the versions of the other programs, and the workloads left out with
// their reasons. If no workload is left, the reasons are the error. An experiment that lacks nothing is returned as it
// is.
func (l library) lacking(ctx context.Context, r *experiment.Resolved, at deploy.Deployment, of build) (
	can *experiment.Resolved, versions map[string]string, lacking []experiment.Omission, err error,
) {
	var reasons []error
	for can = r; ; {
		found, lacks, err := control.Programs(ctx, can, at)
		if err != nil {
			return nil, nil, nil, err
		}
		if len(lacks) == 0 {
			found["nettoll"] = of.versionText()
			can.Omitted = append(can.Omitted, lacking...)
			return can, found, lacking, nil
		}
		rest := can.Experiment
		rest.Workloads = nil
		for i, load := range can.Experiment.Workloads {
			lack, gone := lacks[i]
			if !gone {
				rest.Workloads = append(rest.Workloads, load)
				continue
			}
			lacking = append(lacking, lack.Omission)
			if !slices.ContainsFunc(reasons, func(other error) bool { return other.Error() == lack.Err.Error() }) {
				reasons = append(reasons, lack.Err)
			}
		}
		if len(rest.Workloads) == 0 {
			return nil, nil, nil, errors.Join(reasons...)
		}
		cpus, err := at.CPUs(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		// A workload that was left out as a duplicate may now be the only one: resolve again.
		if can, err = experiment.Resolve(rest, l.catalogue.Parts(), len(cpus)); err != nil {
			return nil, nil, nil, errors.Join(append(reasons, err)...)
		}
	}
}
