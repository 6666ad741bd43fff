package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// sentences say what has changed: first in how many comparisons, then in each of the important ones.
func (v *comparison) sentences() []string {
	n, verdicts := 0, map[measure.Verdict]int{}
	var important, rest []string
	for _, g := range v.Groups {
		for _, cell := range g.Compared() {
			n++
			c := v.changes[cell.ID][g.Primary.Name]
			if c == nil { // neither run knows anything of it
				verdicts[measure.NotPrecise]++
				continue
			}
			verdicts[c.Verdict]++
			if s := v.sentence(g, c); Differs(c.Verdict) {
				important = append(important, s)
			} else {
				rest = append(rest, s)
			}
		}
	}
	if n == 0 {
		return []string{"The two runs share only baselines: there is no stack to compare."}
	}
	list := []string{headline(n, verdicts)}
	if n <= mostSentences {
		return append(append(list, important...), rest...)
	}
	if k := len(important) - mostSentences; k > 0 {
		important = append(important[:mostSentences],
			fmt.Sprintf("… and %s more, in the tables below.", Count(k, "difference", "differences")))
	}
	return append(list, important...)
}

// headline says how many of n comparisons came out how.
func headline(n int, verdicts map[measure.Verdict]int) string {
	if verdicts[measure.NoDifference] == n {
		if n == 1 {
			return "No difference above the floor between OLD and NEW in the only comparison."
		}
		return fmt.Sprintf("No difference above the floor between OLD and NEW in any of %d comparisons.", n)
	}
	return fmt.Sprintf("NEW against OLD: %s of %s.", outcomes(verdicts), Count(n, "comparison", "comparisons"))
}

// outcomes says how many comparisons came out how: "slower in 3, not precise enough in 1".
func outcomes(verdicts map[measure.Verdict]int) string {
	var said []string
	for _, v := range []measure.Verdict{
		measure.Slower, measure.Faster, measure.Higher, measure.Lower, measure.NoDifference, measure.NotPrecise,
		measure.TooFew, measure.HasFailed,
	} {
		if n := verdicts[v]; n > 0 {
			said = append(said, fmt.Sprintf("%s in %d", v, n))
		}
	}
	return strings.Join(said, ", ")
}

// sentence says how a cell has changed in its primary metric, and no more than its verdict does.
func (v *comparison) sentence(g *Group, c *measure.Change) string {
	who, what := StackName(c.Cell), of(c.About)
	point, interval := Change(&c.Row)
	how := fmt.Sprintf("%s %s, 95 %% interval %s", kind(&c.Row), point, interval)
	switch c.Verdict {
	case measure.HasFailed:
		var in []string
		for _, s := range v.c.sides() {
			for _, f := range s.data.Analysis.Failed {
				switch {
				case f.Cell != c.Cell.ID:
				case f.Trials == 0:
					in = append(in, "was not measured in "+s.word)
				default:
					in = append(in, "failed in "+s.word)
				}
			}
		}
		return fmt.Sprintf("%s: no result for %s %s: it %s.", who, what, g.Where, strings.Join(in, " and "))
	case measure.NoDifference:
		return fmt.Sprintf("%s: no difference above the floor (%s) in %s %s.", who, margin(c.Floor, g.Primary), what, g.Where)
	case measure.Slower, measure.Faster:
		return fmt.Sprintf("%s is %s in NEW %s: its toll on %s went from %s to %s (%s).", who, c.Verdict, g.Where, what,
			toll(c.Old), toll(c.New), how)
	case measure.Higher, measure.Lower:
		return fmt.Sprintf("%s of %s is %s in NEW %s: its toll went from %s to %s (%s).", Label(c.About), who, c.Verdict,
			g.Where, toll(c.Old), toll(c.New), how)
	}
	if point == "" {
		return fmt.Sprintf("%s: no result for %s %s: %s.", who, what, g.Where, v.why(g, c))
	}
	if c.Verdict == measure.TooFew {
		return fmt.Sprintf("%s: no verdict on %s %s: each run needs %d generations; OLD has %d and NEW has %d (%s).",
			who, what, g.Where, measure.LeastGenerations, c.Old.Generations, c.New.Generations, how)
	}
	text := fmt.Sprintf("%s: inconclusive for %s %s (%s)", who, what, g.Where, how)
	if math.IsNaN(c.Floor) {
		text += ": the floor of a run is unknown"
	}
	return text + "."
}

// kind names what two runs are compared by.
func kind(r *measure.Row) string {
	if r.HasDifference {
		return "difference of differences"
	}
	return "ratio of ratios"
}

// toll is what a row's cell adds over its baseline, "–" where that is not known.
func toll(r *measure.Row) string {
	if r == nil {
		return "–"
	}
	if point, _ := Change(r); point != "" {
		return point
	}
	return "–"
}

// why says why two rows cannot be compared.
func (v *comparison) why(g *Group, c *measure.Change) string {
	for _, s := range v.c.sides() {
		r := c.Old
		if s.word == "NEW" {
			r = c.New
		}
		switch {
		case r == nil:
			return s.word + " has no value"
		case r.HasRatio || r.HasDifference:
			continue
		case r.Generations < 2:
			return fmt.Sprintf("an interval needs 2 generations; %s has %d", s.word, r.Generations)
		case slices.ContainsFunc(s.data.Analysis.Failed, func(f measure.FailedCell) bool {
			return f.Cell == r.Cell.Baseline
		}):
			return "its baseline failed in " + s.word
		}
		return fmt.Sprintf("%s has no ratio to %s", s.word, g.baseAs)
	}
	return "no ratio of ratios could be computed"
}

// drift prints by how much a value differs from one run to the other, "" where that cannot be said.
func drift(c *measure.Change) string {
	x := c.Drift()
	if math.IsNaN(x) || math.IsInf(x, 0) || x == 0 {
		return ""
	}
	const known = 0.02 // no interval is drawn of it: one decimal
	point, _ := ratio(x, x-known/2, x+known/2)
	return point
}

// floorNote says what the floor of the primary metric is.
func (v *comparison) floorNote(g *Group) string {
	for _, cell := range g.Compared() {
		if c := v.changes[cell.ID][g.Primary.Name]; c != nil {
			if m := margin(c.Floor, g.Primary); m != "" {
				return "floor " + m + " (the floors of both runs combined)"
			}
		}
	}
	return "floor unknown (it needs a twin of the baseline with at least 5 generations in both runs)"
}

// origins says of each run what it is called, when it was measured, how much and where.
func (v *comparison) origins() []string {
	var list []string
	for _, s := range v.c.sides() {
		a := s.data.Analysis
		text := fmt.Sprintf("%s: %s", s.word, Printable(s.dir))
		if at := s.data.Run.Started; !at.IsZero() {
			text += at.UTC().Format(", 2006-01-02 15:04 UTC")
		}
		text += fmt.Sprintf(", %s in %s", Count(a.Blocks, "block", "blocks"),
			Count(a.Generations, "generation", "generations"))
		if on := Read(s.data.Run, a).Circumstances(); on != "" {
			text += " · " + on
		}
		list = append(list, text)
	}
	return list
}

// drift says how the baseline itself has changed.
func (v *comparison) drift(g *Group) string {
	if g.Base == nil {
		return ""
	}
	c := v.changes[g.Base.ID][g.Primary.Name]
	if c == nil || c.Verdict == measure.HasFailed {
		return g.baseAs + ": no result in at least one run"
	}
	text := fmt.Sprintf("%s: %s in OLD, %s in NEW", g.baseAs, valueOf(c.Old), valueOf(c.New))
	if d := drift(c); d != "" {
		text += " (" + d + ", which cancels out)"
	}
	return text
}
