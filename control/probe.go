package control

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/workload"
)

// TryProbe loads a probe, switches it on and off, and removes it. It returns what did not work: a
// [linux.UnsupportedError] if the machine or the privilege lacks something.
//
// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
func TryProbe(p probe.Probe) error {
	loaded, err := p.Load()
	if err != nil {
		return err
	}
	return errors.Join(loaded.On(), loaded.Close())
}

// halves cuts the order of a block into the visits with the probe and those without, either of them first. The probe
// costs every packet something, and switching it takes milliseconds in which the kernel changes its own code: it
// happens once in a block, between trials.
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

// leave takes a cell that is precise enough out of the experiment, and with it the same cell with a probe. A member of
// a mix waits for the others: without it they would be another mix. With them leave the same members alone.
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
			for j, alone := range s.cells {
				if alone.Alone == s.cells[m].ID && s.gone[j] == "" {
					s.gone[j] = precise
				}
			}
		}
	}
}

// probed adds to the result of a trial what the probe of a run has found. If the cell has none and something was
// counted all the same, the probe was on: its figures cannot be those of a cell without, and a warning says so.
func probed(r *workload.Result, p probe.Probe, c experiment.Cell, t workload.Trial, counted int64) {
	switch {
	case p == nil:
	case c.Probe != "":
		p.Put(r.Metrics, t, counted)
	case counted != 0:
		r.Warnings = append(r.Warnings, fmt.Sprintf("the probe %s was on in a trial without a probe: please report "+
			"this", p.Describe().Name))
	}
}
