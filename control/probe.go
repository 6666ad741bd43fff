package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/softirq/probe"
	"github.com/nettoll/nettoll/workload"
)

// loadProbe loads what an experiment wants to be probed with; nil where that is nothing. It fails before anything is built where that cannot work here.
func loadProbe(d experiment.Design) (*probe.Probe, error) {
	if d.Probe == "" {
		return nil, nil
	}
	return probe.Load()
}

// TryProbe loads the probe, switches it on and off, and removes it. It returns what did not work: a [linux.UnsupportedError] where the machine or the
// privilege lacks something.
//
// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
func TryProbe() error {
	p, err := probe.Load()
	if err != nil {
		return err
	}
	return errors.Join(p.On(), p.Close())
}

// halves cuts the order of a block into the visits with the probe and those without, either of them first. The probe costs
// every packet something, and switching it takes milliseconds in which the kernel changes its own code: it happens once in a block, between
// trials.
func (s *scheduler) halves(order []int) [][]int {
	without := slices.DeleteFunc(slices.Clone(order), s.probed)
	with := slices.DeleteFunc(slices.Clone(order), func(visit int) bool { return !s.probed(visit) })
	if len(with) > 0 && s.order.IntN(2) == 0 {
		with, without = without, with
	}
	return slices.DeleteFunc([][]int{without, with}, func(half []int) bool { return len(half) == 0 })
}

// probed says whether a visit is one with the probe.
func (s *scheduler) probed(visit int) bool {
	return s.cells[s.workload.visits[visit].Cells[0]].Probe != ""
}

// visit measures the trials of a part of a block, which are all with the probe or all without.
func (s *scheduler) visit(ctx context.Context, g *generation, order []int) ([]trial, error) {
	if !s.probed(order[0]) {
		return s.workload.run(ctx, g, order)
	}
	if err := s.configure.probe.On(); err != nil {
		return nil, err
	}
	trials, err := s.workload.run(ctx, g, order)
	return trials, errors.Join(err, s.configure.probe.Off())
}

// leave takes a cell that is precise enough out of the experiment, and with it the same cell with a probe. A member of a mix waits for the others:
// without it they would be another mix.
func (s *scheduler) leave(id string) {
	for i, c := range s.cells {
		if (c.ID != id && c.Unprobed != id) || s.gone[i] != "" {
			continue
		}
		s.may[i] = true
		members := s.workload.visits[c.Visit].Cells
		if slices.ContainsFunc(members, func(m int) bool { return !s.may[m] }) {
			continue
		}
		for _, m := range members {
			s.gone[m] = precise
		}
	}
}

// probed adds to the result of a trial what its probe has found. Where a cell has none and something was counted all the same, the probe was on: its
// figures cannot be those of a cell without, and the reader is told.
func probed(r *workload.Result, c experiment.Cell, t workload.Trial, softirq time.Duration) {
	switch {
	case c.Probe == experiment.Softirq:
		t.PutSoftirq(r.Metrics, softirq)
	case softirq != 0:
		r.Warnings = append(r.Warnings, "the probe of soft interrupts was on, and should not have been")
	}
}
