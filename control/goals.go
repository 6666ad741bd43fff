package control

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// Why a cell is not measured any more, if it did not fail.
const (
	precise  = "precise"
	decided  = "decided"
	unneeded = "not needed" // another cell failed, without which it answers nothing; or it was a baseline
)

// left reports whether a cell with this entry in scheduler.gone left without a failure of its own.
func left(why string) bool { return why == precise || why == decided || why == unneeded }

// settle closes the goals that a look finds decided, or precise at two looks one after the other, and has cells leave
// that no open goal needs. A goal once closed stays closed: its cells may be gone, and the level of the next look is
// another one.
func (s *scheduler) settle(goals []measure.Goal) {
	d := s.experiment.Design
	s.open = nil
	asked, needed, why := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, g := range goals {
		switch {
		case s.closed[g.Name] != "":
		case d.Decided && g.Decided:
			s.closed[g.Name] = decided
		case g.Precise && s.precise[g.Name]:
			s.closed[g.Name] = precise
		}
		s.precise[g.Name] = g.Precise
		closed := s.closed[g.Name]
		isOpen := closed == "" && s.answerable(g)
		if isOpen {
			s.open = append(s.open, g)
		}
		for _, id := range g.Cells {
			asked[id], needed[id] = true, needed[id] || isOpen
			if closed == decided || why[id] == "" || why[id] == unneeded {
				why[id] = cmp.Or(closed, unneeded)
			}
		}
	}
	s.goals = len(goals)
	for _, c := range s.cells {
		if c.Governs() && asked[c.ID] && !needed[c.ID] {
			s.leave(c.ID, why[c.ID])
		}
	}
	// The baseline of a group and its twin leave with the last of the others.
	for _, group := range s.options.Resolved.Groups() {
		if !slices.ContainsFunc(group, func(c experiment.Cell) bool { return asked[c.ID] }) ||
			slices.ContainsFunc(group, func(c experiment.Cell) bool {
				return needed[c.ID] || c.Governs() && s.gone[s.index(c.ID)] == ""
			}) {
			continue
		}
		for _, c := range group {
			if c.Base() && s.gone[s.index(c.ID)] == "" {
				s.leave(c.ID, unneeded)
			}
		}
	}
}

// index returns the index of a cell; -1 if the run has no such cell.
func (s *scheduler) index(id string) int {
	return slices.IndexFunc(s.cells, func(c experiment.Cell) bool { return c.ID == id })
}

// failed reports whether a cell is not measured any more because something failed.
func (s *scheduler) failed(id string) bool {
	why := s.gone[s.index(id)]
	return why != "" && !left(why)
}

// leave takes a cell out of the experiment, and with it the same cell with a probe. A member of a mix waits for the
// others: without it they would be another mix. With them leave the same members alone.
func (s *scheduler) leave(id, why string) {
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
			s.gone[m] = why
			for j, alone := range s.cells {
				if alone.Alone == s.cells[m].ID && s.gone[j] == "" {
					s.gone[j] = why
				}
			}
		}
	}
}

// done reports whether nothing is left to measure for: no cell that governs, and no open goal whose cells can still be
// measured. A run of a baseline and its twin alone goes on until the time is up.
func (s *scheduler) done() bool {
	governs := false
	for i, c := range s.cells {
		if c.Governs() && s.gone[i] == "" {
			return false
		}
		governs = governs || c.Governs()
	}
	return governs && !slices.ContainsFunc(s.open, s.answerable)
}

// answerable reports whether no cell that a goal needs has failed.
func (s *scheduler) answerable(g measure.Goal) bool { return !slices.ContainsFunc(g.Cells, s.failed) }

// lookAt returns the goals as a look finds them.
func (s *scheduler) lookAt(now measure.Analysis, look int) []measure.Goal {
	if s.experiment.Design.Decided && s.options.Goals != nil {
		return s.options.Goals(s.records.run, &s.records.log, now, look)
	}
	return now.Goals(look)
}

// closes returns after how much more measuring a goal is closed, if its estimate and the noise stay as they are; false
// if that is not known, or never.
func (s *scheduler) closes(g measure.Goal) (time.Duration, bool) {
	times := g.ToPrecise
	if s.experiment.Design.Decided && !math.IsNaN(g.ToDecide) && !(times <= g.ToDecide) {
		times = g.ToDecide
	}
	if !(times < 1e6) {
		return 0, false
	}
	return time.Duration((times - 1) * float64(s.measured)), true
}
