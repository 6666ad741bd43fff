package experiment

import (
	"time"

	"github.com/nettoll/nettoll/measure"
)

// Span describes the consecutive cells of a group in a block.
type Span struct {
	Group string
	Cells int           // including twins
	Bases int           // number of them that are the baseline or its twin
	Turn  time.Duration // time from the start of a trial to the start of the next one
}

// NewSpan returns the span of a group with this number of cells and bases, and trials of this length.
func NewSpan(cells, bases int, trial time.Duration) Span {
	return Span{Cells: cells, Bases: bases, Turn: trial + turnTime}
}

// Spans returns the spans of the groups in which cells are compared with a baseline, in their order.
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

// Base reports whether other cells are compared with the cell: it is a baseline or its twin.
func (c Cell) Base() bool { return c.Baseline == "" || c.Twin }

// Reach returns the largest number of places between a cell and the nearest base, depending on whether a base is first.
// It is the number of trials within the usual memory of the noise, or more if the group is too large for that.
func (s Span) Reach(first bool) int {
	sides := 2 * s.Bases // sides of the bases that can have other cells
	if first {
		sides--
	}
	least := (s.Cells - s.Bases + sides - 1) / sides
	return max(least, int(measure.UsualMemory*float64(time.Second)/float64(s.Turn)))
}

// Farthest returns the largest time between the starts of a cell and of the nearest base.
func (s Span) Farthest() time.Duration {
	return time.Duration(min(s.Reach(true), s.Cells-s.Bases)) * s.Turn
}
