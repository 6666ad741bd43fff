package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// where returns the placement of a group, and the traits that distinguish it from others of the same placement and
// metric.
func (v *Reading) where(g *Group) string {
	traits := func(g *Group) []string {
		c := g.one()
		return append(spoken(c), "in "+Printable(c.Workload), pairsOf(c), cmp.Or(mixedWith(c), "not mixed"),
			Printable(c.Family), "affinity "+Printable(c.Affinity),
			"idle "+Printable(c.Idle))
	}
	list := []string{place(g.one().Placement)}
	for _, t := range traits(g) {
		if slices.ContainsFunc(v.Groups, func(o *Group) bool {
			return o.Primary.Name == g.Primary.Name && o.one().Placement == g.one().Placement && !slices.Contains(traits(o), t)
		}) {
			list = append(list, t)
		}
	}
	return strings.Join(list, ", ")
}

const (
	mostSentences = 6  // number of comparisons up to which each has a sentence of its own
	mostStacks    = 12 // number of stacks up to which each has one; beyond it, stacks of the same parts share one
)

// Answer returns sentences about the decided comparisons: the cost of each stack. For the others, see
// [Reading.Undecided].
func (v *Reading) Answer() []string {
	n := v.Comparisons()
	if n == 0 {
		return v.onlyBaseline()
	}
	open := v.open()
	if len(open) == n {
		return []string{nothingDecided(open)}
	}
	if n > mostSentences {
		return v.Summary()
	}
	var list []string
	for _, g := range v.Groups {
		for _, c := range g.Compared() {
			if r := g.Row(c, g.Primary.Name); !undecided(r) {
				list = append(list, v.sentence(g, c))
			}
		}
	}
	return list
}

// Comparisons returns the number of cells that are compared with a baseline.
func (v *Reading) Comparisons() int {
	n := 0
	for _, g := range v.Groups {
		n += len(g.Compared())
	}
	return n
}

func (v *Reading) onlyBaseline() []string {
	list := []string{"Only the baseline was measured: there is nothing to compare it with."}
	for _, g := range v.Groups {
		if f := g.Floor(g.Primary.Name); !math.IsNaN(f) && !math.IsInf(f, 0) {
			list = append(list, fmt.Sprintf("Two equal stacks differ by %s in %s %s.", noise(f, g.Primary), of(g.Primary),
				g.Where))
		}
	}
	return list
}

// sentence returns the sentence about a cell, which claims no more than its verdict.
func (v *Reading) sentence(g *Group, c *measure.Cell) string {
	who, what, r := StackName(c), of(g.Primary), g.Row(c, g.Primary.Name)
	if f, ok := v.Failed[c.ID]; ok {
		where := g.Where
		if in := "in " + Printable(c.Workload); !strings.Contains(where, in) {
			where = in + " " + where
		}
		if f.Trials == 0 {
			return fmt.Sprintf("%s was not measured %s.", who, where)
		}
		return fmt.Sprintf("%s failed %s: %s.", who, where, Printable(f.Reason))
	}
	if r == nil {
		return fmt.Sprintf("%s, %s %s: too few samples.", who, what, g.Where)
	}
	switch r.Verdict {
	case measure.Slower, measure.Faster, measure.Higher, measure.Lower:
		return v.toll(g, c, r)
	case measure.NoDifference:
		_, interval := Change(r)
		return fmt.Sprintf("%s: no difference in %s %s: within %s (95 %% interval %s).", who, what, g.Where,
			within(v.Run.Design.Equal(), g.Primary), interval)
	}
	return fmt.Sprintf("%s, %s %s: %s", who, what, g.Where, v.why(g, r))
}

// whyNot returns the reason why a row has no ratio.
func (v *Reading) whyNot(g *Group, r *measure.Row) string {
	if g.Base == nil {
		return "it has no baseline"
	}
	if _, failed := v.Failed[g.Base.ID]; failed {
		return "its baseline failed"
	}
	switch {
	case r.Generations < 2:
		return fmt.Sprintf("an interval needs 2 generations (measured: %d)", r.Generations)
	case g.Row(g.Base, r.Metric) == nil:
		return "its baseline has no value"
	}
	return "no ratio could be computed"
}

// toll returns the sentence about a cell that differs from its baseline.
func (v *Reading) toll(g *Group, c *measure.Cell, r *measure.Row) string {
	who, what := StackName(c), of(r.About)
	point, interval := Change(r)
	up := r.Verdict == measure.Higher || (r.Verdict == measure.Slower) == (g.Primary.Better == measure.LowerBetter) &&
		r.Verdict != measure.Lower
	factor := strings.HasPrefix(point, "×")
	plain := strings.TrimLeft(point, "+−")
	if !g.Primary.Speed() || g.Primary.Better != measure.LowerBetter {
		verb := "lowers"
		if up {
			verb = "raises"
		}
		by := "by "
		if factor {
			by = "to "
		}
		return fmt.Sprintf("%s %s %s %s%s (95 %% interval %s) %s.", who, verb, what, by, plain, interval, g.Where)
	}
	how := fmt.Sprintf("%s, 95 %% interval %s", point, interval)
	added := strings.TrimLeft(g.difference(r), "+−")
	ok := added != ""
	switch {
	case ok && up:
		return fmt.Sprintf("%s adds %s (%s) to %s %s.", who, added, how, what, g.Where)
	case ok:
		return fmt.Sprintf("%s shortens %s by %s (%s) %s.", who, what, added, how, g.Where)
	case factor:
		return fmt.Sprintf("%s: %s take %s times as long (95 %% interval %s) %s.", who, what, strings.TrimPrefix(point, "×"),
			interval, g.Where)
	case up:
		return fmt.Sprintf("%s lengthens %s by %s (95 %% interval %s) %s.", who, what, plain, interval, g.Where)
	}
	return fmt.Sprintf("%s shortens %s by %s (95 %% interval %s) %s.", who, what, plain, interval, g.Where)
}

// Summary returns, for each stack or for all stacks of the same parts, a sentence with the number of comparisons in
// which it differs. Stacks without a decided comparison have none.
func (v *Reading) Summary() []string {
	stacks := map[string]bool{}
	for _, g := range v.Groups {
		for _, c := range g.Compared() {
			stacks[StackName(c)] = true
		}
	}
	type tally struct {
		verdicts map[measure.Verdict]int
		stacks   map[string]bool
		lo, hi   map[string]*measure.Row // by primary metric: smallest and largest ratio of those that differ
		order    []string
		n        int
	}
	var names []string
	all := map[string]*tally{}
	for _, g := range v.Groups {
		for _, c := range g.Compared() {
			who := StackName(c)
			if len(stacks) > mostStacks {
				who = bareName(c)
			}
			t := all[who]
			if t == nil {
				t = &tally{
					verdicts: map[measure.Verdict]int{}, stacks: map[string]bool{}, lo: map[string]*measure.Row{},
					hi: map[string]*measure.Row{},
				}
				all[who] = t
				names = append(names, who)
			}
			t.n++
			t.stacks[StackName(c)] = true
			r := g.Row(c, g.Primary.Name)
			if r == nil {
				t.verdicts[measure.NotPrecise]++
				continue
			}
			t.verdicts[r.Verdict]++
			if !measure.Differs(r.Verdict) || !r.HasRatio {
				continue
			}
			if t.lo[r.Metric] == nil {
				t.order = append(t.order, r.Metric)
			}
			if l := t.lo[r.Metric]; l == nil || r.Estimate.Ratio < l.Estimate.Ratio {
				t.lo[r.Metric] = r
			}
			if h := t.hi[r.Metric]; h == nil || r.Estimate.Ratio > h.Estimate.Ratio {
				t.hi[r.Metric] = r
			}
		}
	}
	var list []string
	for _, who := range names {
		t := all[who]
		said, left := outcomes(t.verdicts)
		if said == "" {
			continue
		}
		if n := len(t.stacks); n > 1 {
			who += fmt.Sprintf(" (%d variants)", n)
		}
		text := fmt.Sprintf("%s: %s of %s", who, said, Count(t.n, "comparison", "comparisons"))
		var ranges []string
		for _, m := range t.order {
			from, _ := Change(t.lo[m])
			to, _ := Change(t.hi[m])
			if from != to {
				from += " to " + to
			}
			ranges = append(ranges, Label(t.lo[m].About)+" "+from)
		}
		if len(ranges) > 0 {
			text += " (" + strings.Join(ranges, "; ") + ")"
		}
		if left > 0 {
			text += fmt.Sprintf("; %d not decided", left)
		}
		list = append(list, text+".")
	}
	return list
}
