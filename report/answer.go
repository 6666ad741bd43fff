package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// where says where a group was measured and what tells it from the others of the same placement and metric.
func (v *view) where(g *group) string {
	traits := func(g *group) []string {
		c := g.one()
		return append(spoken(c), "in "+printable(c.Workload), pairsOf(c), cmp.Or(mixedWith(c), "not mixed"),
			printable(c.Family), "affinity "+printable(c.Affinity))
	}
	list := []string{place(g.one().Placement)}
	for _, t := range traits(g) {
		if slices.ContainsFunc(v.groups, func(o *group) bool {
			return o.primary.Name == g.primary.Name && o.one().Placement == g.one().Placement && !slices.Contains(traits(o), t)
		}) {
			list = append(list, t)
		}
	}
	return strings.Join(list, ", ")
}

const (
	mostSentences = 6  // how many comparisons get a sentence of their own
	mostStacks    = 12 // how many stacks do; of more, those with the same parts share one
)

// answer writes what the stacks cost.
func (v *view) answer() {
	for _, s := range v.sentences() {
		v.prose("", "  ", s, bold)
	}
}

// sentences say what the stacks cost.
func (v *view) sentences() []string {
	switch n := v.comparisons(); {
	case n == 0:
		return v.onlyBaseline()
	case n > mostSentences:
		return v.summary()
	}
	var list []string
	for _, g := range v.groups {
		for _, c := range g.compared() {
			list = append(list, v.sentence(g, c))
		}
	}
	return list
}

// comparisons counts the cells that are measured against a baseline.
func (v *view) comparisons() int {
	n := 0
	for _, g := range v.groups {
		n += len(g.compared())
	}
	return n
}

func (v *view) onlyBaseline() []string {
	list := []string{"Only the baseline was measured: there is nothing to compare it with."}
	for _, g := range v.groups {
		if m := margin(g.floor(g.primary.Name), g.primary); m != "" {
			list = append(list, fmt.Sprintf("Two equal stacks differ by at most %s in %s %s.", strings.TrimPrefix(m, "±"),
				of(g.primary), g.where))
		}
	}
	return list
}

// sentence says what a cell costs, and no more than its verdict does.
func (v *view) sentence(g *group, c *measure.Cell) string {
	who, what, r := name(c), of(g.primary), g.row(c, g.primary.Name)
	if f, ok := v.failed[c.ID]; ok {
		where := g.where
		if in := "in " + printable(c.Workload); !strings.Contains(where, in) {
			where = in + " " + where
		}
		if f.Trials == 0 {
			return fmt.Sprintf("%s was not measured %s.", who, where)
		}
		return fmt.Sprintf("%s failed %s: %s.", who, where, printable(f.Reason))
	}
	if r == nil {
		return fmt.Sprintf("%s: no result for %s %s: too few samples.", who, what, g.where)
	}
	point, interval := change(r)
	how := fmt.Sprintf("%s, 95 %% interval %s", point, interval)
	switch r.Verdict {
	case measure.Slower, measure.Faster, measure.Higher, measure.Lower:
		return v.toll(g, c, r)
	case measure.NoDifference:
		m := margin(r.Floor, g.primary)
		if apart, far := strings.CutPrefix(m, "×"); far {
			return fmt.Sprintf("%s: too noisy to compare %s %s: two equal stacks may differ by a factor of %s.", who, what,
				g.where, apart)
		}
		return fmt.Sprintf("%s: no difference above the floor (%s) in %s %s.", who, m, what, g.where)
	default:
		if point == "" {
			return fmt.Sprintf("%s: no result for %s %s: %s.", who, what, g.where, v.whyNot(g, r))
		}
		if r.Verdict == measure.TooFew {
			return fmt.Sprintf("%s: no verdict on %s %s: %d of the %d generations needed (%s).", who, what, g.where,
				r.Generations, measure.LeastGenerations, how)
		}
		text := fmt.Sprintf("%s: inconclusive for %s %s (%s)", who, what, g.where, how)
		if math.IsNaN(r.Floor) {
			text += ": the floor is unknown"
		}
		return text + "."
	}
}

// whyNot says why a row has no ratio.
func (v *view) whyNot(g *group, r *measure.Row) string {
	if g.base == nil {
		return "it has no baseline"
	}
	if _, failed := v.failed[g.base.ID]; failed {
		return "its baseline failed"
	}
	switch {
	case r.Generations < 2:
		return fmt.Sprintf("an interval needs 2 generations (measured: %d)", r.Generations)
	case g.row(g.base, r.Metric) == nil:
		return "its baseline has no value"
	}
	return "no ratio could be computed"
}

// toll is the sentence about a cell that differs from its baseline.
func (v *view) toll(g *group, c *measure.Cell, r *measure.Row) string {
	who, what := name(c), of(r.About)
	point, interval := change(r)
	up := r.Verdict == measure.Higher || (r.Verdict == measure.Slower) == (g.primary.Better == measure.LowerBetter) &&
		r.Verdict != measure.Lower
	factor := strings.HasPrefix(point, "×")
	plain := strings.TrimLeft(point, "+−")
	if !g.primary.Speed() || g.primary.Better != measure.LowerBetter {
		verb := "lowers"
		if up {
			verb = "raises"
		}
		by := "by "
		if factor {
			by = "to "
		}
		return fmt.Sprintf("%s %s %s %s%s (95 %% interval %s) %s.", who, verb, what, by, plain, interval, g.where)
	}
	how := fmt.Sprintf("%s, 95 %% interval %s", point, interval)
	added, ok := g.added(r)
	switch {
	case ok && up:
		return fmt.Sprintf("%s adds %s (%s) to %s %s.", who, added, how, what, g.where)
	case ok:
		return fmt.Sprintf("%s shortens %s by %s (%s) %s.", who, what, added, how, g.where)
	case factor:
		return fmt.Sprintf("%s: %s take %s times as long (95 %% interval %s) %s.", who, what, strings.TrimPrefix(point, "×"),
			interval, g.where)
	case up:
		return fmt.Sprintf("%s lengthens %s by %s (95 %% interval %s) %s.", who, what, plain, interval, g.where)
	}
	return fmt.Sprintf("%s shortens %s by %s (95 %% interval %s) %s.", who, what, plain, interval, g.where)
}

// added is the toll in the metric's unit without its sign, value − baseline value. The ratio comes from blocks in which
// both were measured and the values from all there are, over which the machine may have drifted: where the difference
// does not fit the interval of the ratio, there is none.
func (g *group) added(r *measure.Row) (string, bool) {
	b := g.row(g.base, r.Metric)
	if b == nil || !r.HasRatio || math.IsNaN(b.Value) {
		return "", false
	}
	d := r.Value - b.Value
	if d < b.Value*(r.Estimate.Lo-1) || d > b.Value*(r.Estimate.Hi-1) {
		return "", false
	}
	return number(math.Abs(d), r.Unit), true
}

// summary says in a sentence for each stack, or for those of the same parts, in how many comparisons it differs.
func (v *view) summary() []string {
	stacks := map[string]bool{}
	for _, g := range v.groups {
		for _, c := range g.compared() {
			stacks[name(c)] = true
		}
	}
	type tally struct {
		verdicts map[measure.Verdict]int
		stacks   map[string]bool
		lo, hi   map[string]*measure.Row // by primary metric: the rows with the smallest and the largest ratio that differ
		order    []string
		n        int
	}
	var names []string
	all := map[string]*tally{}
	for _, g := range v.groups {
		for _, c := range g.compared() {
			who := name(c)
			if len(stacks) > mostStacks {
				who = partsOf(who)
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
			t.stacks[name(c)] = true
			r := g.row(c, g.primary.Name)
			if r == nil {
				t.verdicts[measure.NotPrecise]++
				continue
			}
			t.verdicts[r.Verdict]++
			if !differing(r.Verdict) || !r.HasRatio {
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
		if n := len(t.stacks); n > 1 {
			who += fmt.Sprintf(" (%d variants)", n)
		}
		text := fmt.Sprintf("%s: %s of %s", who, outcomes(t.verdicts), count(t.n, "comparison", "comparisons"))
		var ranges []string
		for _, m := range t.order {
			from, _ := change(t.lo[m])
			to, _ := change(t.hi[m])
			if from != to {
				from += " to " + to
			}
			ranges = append(ranges, labelOf(t.lo[m].About)+" "+from)
		}
		if len(ranges) > 0 {
			text += " (" + strings.Join(ranges, "; ") + ")"
		}
		list = append(list, text+".")
	}
	return list
}

func differing(v measure.Verdict) bool {
	return slices.Contains([]measure.Verdict{measure.Faster, measure.Slower, measure.Higher, measure.Lower}, v)
}
