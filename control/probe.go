package control

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/workload"
)

// TryProbe has a deployment load a probe, switches it on and off, and removes it. It returns what did not work: a
// [linux.UnsupportedError] if a machine or the privilege lacks something.
//
// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
func TryProbe(p probe.Probe, at deploy.Deployment) error {
	loaded, err := at.LoadProbe(p)
	if err != nil {
		return err
	}
	return errors.Join(loaded.On(), loaded.Close())
}

// A setting is what is switched between trials of a block, for the whole machine.
type setting struct{ probed, awake bool }

// setting returns that of a visit.
func (s *scheduler) setting(visit int) setting {
	c := s.cells[s.workload.visits[visit].Cells[0]]
	return setting{c.Probe != "", s.wake.of(c) == experiment.IdleAwake}
}

// stretches cuts the order of a block into the visits of each setting, and puts these in a random order. The probe
// costs every packet something, and switching it takes milliseconds in which the kernel changes its own code: it
// happens once in a block, between trials.
func (s *scheduler) stretches(order []int) [][]int {
	var settings []setting
	visits := map[setting][]int{}
	for _, visit := range order {
		of := s.setting(visit)
		if visits[of] == nil {
			settings = append(settings, of)
		}
		visits[of] = append(visits[of], visit)
	}
	if len(settings) > 1 {
		s.order.Shuffle(len(settings), func(i, j int) { settings[i], settings[j] = settings[j], settings[i] })
	}
	unlike := func(of setting) int { // those that are probed as the first one is come first
		if of.probed == settings[0].probed {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(settings, func(a, b setting) int { return unlike(a) - unlike(b) })
	list := make([][]int, len(settings))
	for i, of := range settings {
		list[i] = visits[of]
	}
	return list
}

// visit measures a stretch of a block.
func (s *scheduler) visit(ctx context.Context, g *generation, order []int) (trials []trial, err error) {
	of := s.setting(order[0])
	if of.awake {
		if err := s.wake.up(); err != nil {
			return nil, err
		}
	} else {
		s.wake.sleep()
	}
	if of.probed {
		if err := s.configure.probe.On(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.configure.probe.Off()) }()
	}
	return s.workload.run(ctx, g, order)
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
