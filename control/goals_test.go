package control

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// looking is a scheduler with the cells of two groups.
func looking() *scheduler {
	s := schedulerOf(
		measure.Cell{ID: "a", Group: "1"}, measure.Cell{ID: "a#2", Group: "1", Baseline: "a", Twin: true},
		measure.Cell{ID: "b", Group: "1", Baseline: "a"}, measure.Cell{ID: "c", Group: "1", Baseline: "a"},
		measure.Cell{ID: "x", Group: "2"}, measure.Cell{ID: "x#2", Group: "2", Baseline: "x", Twin: true},
		measure.Cell{ID: "y", Group: "2", Baseline: "x"},
	)
	s.closed, s.precise = map[string]string{}, map[string]bool{}
	s.experiment.Design.Decided = true
	s.options.Resolved = &experiment.Resolved{Cells: s.cells}
	return s
}

// Cells leave when no open goal needs them, and the baseline of a group and its twin with the last of them. A goal that
// was decided once stays so.
func TestSettle(t *testing.T) {
	s := looking()
	for look, c := range []struct {
		decided, precise string // names of goals
		active           string
		open             int
	}{
		{"2", "3", "[0 1 2 4 5 6]", 2}, // b and y are compared with each other
		{"1", "", "[4 5 6]", 1},        // b has left, and with it its group; the third goal is not precise any more
		{"", "3", "[4 5 6]", 1},        // precise at one look
		{"", "3", "[]", 0},             // and at two
	} {
		goals := []measure.Goal{
			{Name: "1", Cells: []string{"b", "y"}}, {Name: "2", Cells: []string{"c", "a"}}, {Name: "3", Cells: []string{"y", "x"}},
		}
		for i := range goals {
			goals[i].Decided, goals[i].Precise = goals[i].Name == c.decided, goals[i].Name == c.precise
		}
		s.settle(goals)
		if got := fmt.Sprint(s.active()); got != c.active || len(s.open) != c.open || s.done() != (c.open == 0) {
			t.Errorf("look %d: %s are measured, %d goals open, done %t; want %+v", look+1, got, len(s.open), s.done(), c)
		}
	}
	if s.gone[3] != decided || s.gone[2] != decided || s.gone[0] != unneeded {
		t.Errorf("the cells have left because they are %v", s.gone)
	}
}

// A goal that needs a failed cell keeps no other cell, and does not keep the run going, whenever the cell fails.
func TestSettleFailed(t *testing.T) {
	s := looking()
	goals := []measure.Goal{{Name: "1", Cells: []string{"b", "y"}}, {Name: "2", Cells: []string{"c", "a"}}}
	s.gone[2] = "it burnt down"
	s.settle(goals)
	if got := s.active(); !slices.Equal(got, []int{0, 1, 3}) || len(s.open) != 1 || s.done() {
		t.Errorf("%v are still measured, and %d goals open; done %t", got, len(s.open), s.done())
	}
	if err := s.baselines(); err != nil {
		t.Error("a baseline that left counts as failed:", err)
	}
	s.gone[3] = "so did this"
	if !s.done() {
		t.Error("the run goes on although its last cell has failed")
	}
}

func TestCloses(t *testing.T) {
	s := looking()
	s.measured = 10 * time.Second
	for _, c := range []struct {
		decide, precise float64
		decided         bool
		want            time.Duration
		known           bool
	}{
		{3, 5, true, 20 * time.Second, true},
		{3, 5, false, 40 * time.Second, true},
		{9, 5, true, 40 * time.Second, true},
		{math.NaN(), 5, true, 40 * time.Second, true},
		{3, math.NaN(), true, 20 * time.Second, true},
		{math.Inf(1), math.NaN(), true, 0, false},
		{3, math.Inf(1), false, 0, false},
	} {
		s.experiment.Design.Decided = c.decided
		got, known := s.closes(measure.Goal{ToDecide: c.decide, ToPrecise: c.precise})
		if got != c.want || known != c.known {
			t.Errorf("%+v: %v, %v", c, got, known)
		}
	}
}
