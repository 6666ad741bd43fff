package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// plannedSpan is how long the cells of a group take in a block, beside how long the machine's noise is remembered: only
// trials that are no farther apart share it. All are in s.
type plannedSpan struct {
	Group    string  `json:"group"`
	Length   float64 `json:"length"`   // all of its cells
	Farthest float64 `json:"farthest"` // from the start of a cell to that of its baseline or that one's twin, at most
	Memory   float64 `json:"memory"`
}

// plannedSpans are those of all groups, with the memories of a pilot if there is one; a group that the pilot does not
// have, or of which it does not know the memory, has the median of the others. The sentence says where they come from.
func plannedSpans(spans []experiment.Span, pilot string, known []measure.Memory) (list []plannedSpan, from string) {
	var all []float64
	by := map[string]float64{}
	for _, m := range known {
		x := m.Seconds
		switch {
		case math.IsNaN(x):
			continue
		case x == 0: // shorter than that
			x = m.Lags[0].At
		case math.IsInf(x, 0): // longer than that
			x = m.Lags[len(m.Lags)-1].At
		}
		by[m.Group] = x
		all = append(all, x)
	}
	usual := measure.UsualMemory
	switch {
	case pilot == "":
		from = "the default; --pilot DIR takes it from a run"
	case len(all) == 0:
		from = "the default; " + pilot + " does not show it"
	default:
		usual, from = measure.Median(all), "as in "+pilot
	}
	for _, s := range spans {
		p := plannedSpan{
			Group: s.Group, Length: (time.Duration(s.Cells) * s.Turn).Seconds(), Farthest: s.Farthest().Seconds(),
			Memory: usual,
		}
		if x, ok := by[s.Group]; ok {
			p.Memory = x
		}
		list = append(list, p)
	}
	return list, from
}

// printSpans says which groups take longer than noise is remembered.
func printSpans(out io.Writer, spans []plannedSpan, from string) {
	long := slices.DeleteFunc(slices.Clone(spans), func(s plannedSpan) bool { return s.Length <= s.Memory })
	if len(long) == 0 {
		return
	}
	between := func(of func(plannedSpan) float64) string {
		var values []float64
		for _, s := range long {
			values = append(values, of(s))
		}
		lo, hi := rounded(slices.Min(values)), rounded(slices.Max(values))
		if lo == hi {
			return lo.String()
		}
		return fmt.Sprintf("%v to %v", lo, hi)
	}
	fmt.Fprintf(out, "In a block the cells of %d of %s take %s, longer than the machine's noise is remembered (%s, %s). "+
		"The farthest cell starts %s from its baseline or that one's twin; fewer stacks in a group "+
		"bring them nearer.\n",
		len(long), several(len(spans), "group"), between(func(s plannedSpan) float64 { return s.Length }),
		between(func(s plannedSpan) float64 { return s.Memory }), from,
		between(func(s plannedSpan) float64 { return s.Farthest }))
}

// rounded is a time in s as plan shows it.
func rounded(s float64) time.Duration { return round(time.Duration(s * float64(time.Second))) }
