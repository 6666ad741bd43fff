package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/suite"
)

// plannedOpen is what is likely to be undecided when the time is up.
type plannedOpen struct {
	What  string   `json:"what"`            // a cell in words, or a claim
	Needs *float64 `json:"needs,omitempty"` // s of measuring that would decide it; absent: no time would
}

// plannedOpen returns what the pilot's estimates and noise leave undecided at the end of a run: claims if it is one of
// a suite, and otherwise comparisons. Only what the pilot has measured is judged.
func (l library) plannedOpen(r *experiment.Resolved, f experiment.Forecast, pilot *report.Data) []plannedOpen {
	var list []plannedOpen
	add := func(what string, blocks, longer float64) {
		needs := blocks * longer * f.Block.Seconds()
		switch {
		case math.IsNaN(needs) || needs <= r.Experiment.Design.Time.Seconds():
		case math.IsInf(needs, 0):
			list = append(list, plannedOpen{What: what})
		default:
			list = append(list, plannedOpen{what, &needs})
		}
	}
	if s := l.paperOf(r); s != nil && pilot.Run.Suite == s.Name {
		var chosen []string
		for _, i := range s.Items(runOf(r)) {
			if i.Kind == suite.ClaimKind && len(i.Cells) > 0 {
				chosen = append(chosen, i.Name)
			}
		}
		for n, c := range s.Evaluate(pilot.Run, pilot.Log, pilot.Analysis).Claims {
			if name := fmt.Sprint(n + 1); slices.Contains(chosen, name) && c.Here.Finding == measure.CannotTell {
				add(fmt.Sprintf("claim %s, %s", name, c.Title), float64(pilot.Analysis.Blocks), c.Here.Longer)
			}
		}
	} else {
		design := r.Experiment.Design.Judged()
		for _, row := range pilot.Analysis.Rows {
			i := slices.IndexFunc(r.Cells, func(c experiment.Cell) bool { return c.ID == row.Cell.ID })
			if i < 0 || row.Metric != row.Cell.Primary || !row.Cell.Governs() {
				continue
			}
			load, where := groupNames(r.Cells[i])
			longer := row.Longer(design.Equal())
			switch {
			case row.Verdict == measure.TooFew:
				longer = float64(measure.LeastGenerations) / float64(row.Generations)
			case row.Verdict == measure.NoDifference && design.Equal() < pilot.Run.Design.Equal():
				row.Verdict = measure.NotPrecise // within the pilot's margin
				longer = row.Longer(design.Equal())
			}
			add(fmt.Sprintf("%s, %s, %s", row.Cell.Stack, load, where), float64(row.Blocks), longer)
		}
	}
	slices.SortStableFunc(list, func(x, y plannedOpen) int { return cmp.Compare(x.needs(), y.needs()) })
	return list
}

func (o plannedOpen) needs() float64 {
	if o.Needs == nil {
		return math.Inf(1)
	}
	return *o.Needs
}

// printOpen prints what is likely to stay open.
func printOpen(out io.Writer, list []plannedOpen, pilot string) {
	if list == nil {
		return
	}
	fmt.Fprintf(out, "\nlikely to stay undecided at the noise of %s, and the measuring time that would decide it\n", pilot)
	for _, o := range list {
		const day = 24 * 60 * 60
		long := "more than a day"
		if s := o.needs(); s < day {
			long = "about " + round(time.Duration(s*float64(time.Second))).String()
		}
		fmt.Fprintf(out, "  %s: %s\n", o.What, long)
	}
	fmt.Fprintln(out)
}
