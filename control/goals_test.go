package control

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// looking is a scheduler with the cells of two groups, that is told what the looks find.
func looking(t *testing.T, decided bool, goals func(look int) []measure.Goal) *scheduler {
	t.Helper()
	s := schedulerOf(
		measure.Cell{ID: "a", Group: "1"}, measure.Cell{ID: "a#2", Group: "1", Baseline: "a", Twin: true},
		measure.Cell{ID: "b", Group: "1", Baseline: "a"}, measure.Cell{ID: "c", Group: "1", Baseline: "a"},
		measure.Cell{ID: "x", Group: "2"}, measure.Cell{ID: "x#2", Group: "2", Baseline: "x", Twin: true},
		measure.Cell{ID: "y", Group: "2", Baseline: "x"},
	)
	s.closed, s.precise = map[string]string{}, map[string]bool{}
	s.experiment.Design.Decided = decided
	s.options.Resolved = &experiment.Resolved{Cells: s.cells}
	s.options.Goals = func(_ measure.Run, _ *measure.Log, _ measure.Analysis, look int) []measure.Goal { return goals(look) }
	s.records = &aggregator{}
	return s
}

// Cells leave when no open goal needs them, and the baseline of a group and its twin with the last of them. A goal that
// was decided once stays so.
func TestSettle(t *testing.T) {
	type goals = []measure.Goal
	s := looking(t, true, func(look int) goals {
		return map[int]goals{
			1: {
				{Name: "1", Cells: []string{"b", "y"}},
				{Name: "2", Cells: []string{"c", "a"}, Decided: true},
				{Name: "3", Cells: []string{"y", "x"}, Precise: true},
			},
			2: {
				{Name: "1", Cells: []string{"b", "y"}, Decided: true},
				{Name: "2", Cells: []string{"c", "a"}},
				{Name: "3", Cells: []string{"y", "x"}},
			},
			3: {
				{Name: "1", Cells: []string{"b", "y"}}, {Name: "2", Cells: []string{"c", "a"}},
				{Name: "3", Cells: []string{"y", "x"}, Precise: true},
			},
			4: {
				{Name: "1", Cells: []string{"b", "y"}}, {Name: "2", Cells: []string{"c", "a"}},
				{Name: "3", Cells: []string{"y", "x"}, Precise: true},
			},
		}[look]
	})
	for look, want := range []struct {
		active          string
		open, remaining int
	}{
		{"[0 1 2 4 5 6]", 2, 2}, // c is decided; b and y are compared with each other
		{"[4 5 6]", 1, 1},       // b has left, and with it its group; the third is not precise yet
		{"[4 5 6]", 1, 1},       // precise at one look
		{"[]", 0, 0},            // and at two
	} {
		s.settle(measure.Analysis{}, look+1)
		if got := fmt.Sprint(s.active()); got != want.active || len(s.open) != want.open || s.remaining() != want.remaining {
			t.Errorf("look %d: %s are measured, %d goals open, %d remaining; want %+v", look+1, got, len(s.open), s.remaining(),
				want)
		}
	}
	if s.gone[3] != decided || s.gone[2] != decided || s.gone[0] != precise {
		t.Errorf("the cells have left because they are %v", s.gone)
	}
}

// What a failed cell would have answered keeps no other cell.
func TestSettleFailed(t *testing.T) {
	s := looking(t, true, func(int) []measure.Goal {
		return []measure.Goal{
			{Name: "1", Cells: []string{"b", "y"}}, {Name: "2", Cells: []string{"c", "a"}},
			{Name: "3", Cells: []string{"y", "x"}, Decided: true},
		}
	})
	s.gone[2] = "it burnt down"
	s.settle(measure.Analysis{}, 1)
	if got := s.active(); !slices.Equal(got, []int{0, 1, 3}) || len(s.open) != 1 {
		t.Errorf("%v are still measured, and %d goals open", got, len(s.open))
	}
	if s.baselines() != nil {
		t.Error("a baseline that left is none that failed")
	}
}

func TestCloses(t *testing.T) {
	s := looking(t, true, nil)
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
	} {
		s.experiment.Design.Decided = c.decided
		got, known := s.closes(measure.Goal{ToDecide: c.decide, ToPrecise: c.precise})
		if got != c.want || known != c.known {
			t.Errorf("%+v: %v, %v", c, got, known)
		}
	}
}
