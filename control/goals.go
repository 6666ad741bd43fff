package control

import (
	"math"
	"slices"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// Why a cell is not measured any more, if it did not fail.
const (
	precise = "precise"
	decided = "decided"
)

// left reports whether a cell with this entry in scheduler.gone left because what it was measured for is known.
func left(why string) bool { return why == precise || why == decided }

// settle closes the goals that a look finds decided, or precise at two looks one after the other, and has cells leave
// that no open goal needs. A goal once closed stays closed: its cells may be gone, and the level of the next look is
// another one.
func (s *scheduler) settle(now measure.Analysis, look int) {
	d := s.experiment.Design
	goals := now.Goals(look, d.Precision)
	if d.Decided && s.options.Goals != nil {
		goals = s.options.Goals(s.records.run, &s.records.log, now, look)
	}
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
		isOpen := closed == "" && !slices.ContainsFunc(g.Cells, s.failed)
		if isOpen {
			s.open = append(s.open, g)
		}
		for _, id := range g.Cells {
			asked[id], needed[id] = true, needed[id] || isOpen
			if closed == decided || why[id] == "" {
				why[id] = closed
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
				s.leave(c.ID, precise)
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

// remaining returns how many cells could still leave, or how many questions are open if none could.
func (s *scheduler) remaining() int {
	n := 0
	for i, c := range s.cells {
		if c.Governs() && s.gone[i] == "" {
			n++
		}
	}
	if n == 0 && !slices.ContainsFunc(s.cells, func(c experiment.Cell) bool { return c.Governs() }) {
		return 1 // baseline and twin alone: measured until the time is up
	}
	return max(n, len(s.open))
}

// closes returns after how much more measuring a goal is closed, if its estimate and the noise stay as they are; false if
// that is not known, or never.
func (s *scheduler) closes(g measure.Goal) (time.Duration, bool) {
	times := g.ToPrecise
	if s.experiment.Design.Decided && !(times <= g.ToDecide) {
		times = g.ToDecide
	}
	if math.IsNaN(times) || times > 1e6 {
		return 0, false
	}
	return time.Duration((times - 1) * float64(s.measured)), true
}
