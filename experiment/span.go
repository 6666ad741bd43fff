package experiment

import (
	"time"

	"github.com/nettoll/nettoll/measure"
)

// Span is how the cells of a group lie in a block, in which they follow each other.
type Span struct {
	Group string
	Cells int           // twins among them
	Bases int           // of these, the baseline and its twin
	Turn  time.Duration // from the start of a trial to that of the next one
}

// NewSpan is that of a group with so many cells, among them the bases, whose trials are so long.
func NewSpan(cells, bases int, trial time.Duration) Span {
	return Span{Cells: cells, Bases: bases, Turn: trial + turnTime}
}

// Spans are those of the groups in which cells are compared with a baseline, in their order.
func (r *Resolved) Spans() []Span {
	var list []Span
	for _, g := range r.Groups() {
		bases, trial := 0, time.Duration(0)
		for _, c := range g {
			if c.Base() {
				bases++
			}
			trial = max(trial, c.Trial)
		}
		if bases > 0 && bases < len(g) && g[0].Probe == "" && g[0].Alone == "" {
			s := NewSpan(len(g), bases, trial)
			s.Group = g[0].Group
			list = append(list, s)
		}
	}
	return list
}

// Base says whether the cell is what others are compared with: a baseline or its twin.
func (c Cell) Base() bool { return c.Baseline == "" || c.Twin }

// Reach returns how many places a cell of a group is from the nearest of the bases at most, if a base is first or not:
// as many as noise is usually remembered over, and more only in a group for which that is not possible.
func (s Span) Reach(first bool) int {
	sides := 2 * s.Bases // of the bases on which others may stand
	if first {
		sides--
	}
	least := (s.Cells - s.Bases + sides - 1) / sides
	return max(least, int(measure.UsualMemory*float64(time.Second)/float64(s.Turn)))
}

// Farthest is how far from the nearest of the bases a cell may start.
func (s Span) Farthest() time.Duration {
	return time.Duration(min(s.Reach(true), s.Cells-s.Bases)) * s.Turn
}
