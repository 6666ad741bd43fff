package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// sentences returns sentences about the changes: a headline with numbers, then one for each important change.
func (v *comparison) sentences() []string {
	n, verdicts := 0, map[measure.Verdict]int{}
	var important, rest []string
	for _, g := range v.Groups {
		for _, cell := range v.compared(g) {
			n++
			c := v.changes[cell.ID][g.Primary.Name]
			if c == nil { // neither run has a value
				verdicts[measure.NotPrecise]++
				continue
			}
			verdicts[c.Verdict]++
			if s := v.sentence(g, c); measure.Differs(c.Verdict) {
				important = append(important, s)
			} else {
				rest = append(rest, s)
			}
		}
	}
	if n == 0 {
		return []string{strings.TrimSpace("The two runs share only baselines: there is no stack to compare. " + v.shift())}
	}
	list := []string{strings.TrimSpace(v.headline(n, verdicts) + " " + v.shift())}
	if n <= mostSentences {
		return append(append(list, important...), rest...)
	}
	if k := len(important) - mostSentences; k > 0 {
		important = append(important[:mostSentences],
			fmt.Sprintf("… and %s more, in the tables below.", Count(k, "difference", "differences")))
	}
	return append(list, important...)
}

// headline returns the sentence with the numbers of outcomes of n comparisons.
func (v *comparison) headline(n int, verdicts map[measure.Verdict]int) string {
	said, left := outcomes(verdicts)
	word, all := v.c.word, Count(n, "comparison", "comparisons")
	switch {
	case verdicts[measure.NoDifference] == n && n == 1:
		return fmt.Sprintf("No difference between OLD and %s in the only comparison.", word)
	case verdicts[measure.NoDifference] == n:
		return fmt.Sprintf("No difference between OLD and %s in any of %d comparisons.", word, n)
	case said == "":
		return fmt.Sprintf("Nothing is decided between OLD and %s in %s.", word, all)
	case left > 0:
		return fmt.Sprintf("%s against OLD: %s of %s; %d not decided.", word, said, all, left)
	}
	return fmt.Sprintf("%s against OLD: %s of %s.", word, said, all)
}

// mostShifts is the number of baselines that the headline names at most.
const mostShifts = 3

// shift returns the sentences about baselines that changed themselves, which ratios do not show, and about those of
// which that cannot be told; "" if there are none.
func (v *comparison) shift() string {
	list, of := v.shifted(func(c *measure.Change) measure.Verdict { return c.Shift })
	var said []string
	if len(list) > 0 {
		text := "The baseline itself became " + together(list, func(c *measure.Change) measure.Verdict { return c.Shift })
		if of > 1 {
			text += fmt.Sprintf(" in %d of %d groups", len(list), of)
		}
		said = append(said, fmt.Sprintf("%s (%s): ratios to it hide what all stacks share; nettoll compare --absolute "+
			"shows it.", text, v.named(list)))
	}
	if list, _ = v.shifted(func(c *measure.Change) measure.Verdict { return c.Unsure }); len(list) > 0 {
		said = append(said, fmt.Sprintf("Whether the baseline itself became %s (%s) cannot be told: %s.",
			together(list, func(c *measure.Change) measure.Verdict { return c.Unsure }), v.named(list), v.c.busier(list[0])))
	}
	return strings.Join(said, " ")
}

// together returns the verdict of all changes, or "different".
func together(list []*measure.Change, of func(*measure.Change) measure.Verdict) string {
	for _, c := range list {
		if of(c) != of(list[0]) {
			return "different"
		}
	}
	return string(of(list[0]))
}

// named names baselines and their changes.
func (v *comparison) named(list []*measure.Change) string {
	var named []string
	for _, c := range list[:min(len(list), mostShifts)] {
		point, _ := Own(c)
		named = append(named, fmt.Sprintf("%s %s %s", Label(c.About), v.whereOf(c), point))
	}
	if n := len(list) - mostShifts; n > 0 {
		named = append(named, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(named, "; ")
}

// busier says what used the CPUs in two runs, and what to do about it.
func (c *Compared) busier(x *measure.Change) string {
	which := c.word
	if x.OldLoad.Cores() > x.NewLoad.Cores() {
		which = "OLD"
	}
	cores := func(l measure.Load) string {
		if cores := l.Cores(); cores >= 0.005 {
			return fmt.Sprintf("%.2g CPUs", cores)
		}
		return "no CPU"
	}
	return fmt.Sprintf("other programs and the hypervisor took %s in OLD and %s in %s; measure %s again with nothing "+
		"else at work", cores(x.OldLoad), cores(x.NewLoad), c.word, which)
}

// whereOf returns the placement and traits of the group of a cell.
func (v *comparison) whereOf(c *measure.Change) string {
	for _, g := range v.Groups {
		if g.one().Group == c.Cell.Group {
			return g.Where
		}
	}
	return ""
}

// caveat is the limit of a comparison of values.
const caveat = "These are values, not ratios to a baseline: whatever else differed between the runs is in the " +
	"changes too, such as other work on the machine, its clock or its temperature. To see how much that is here, " +
	"compare two runs of the same kind."

// subject returns the sentences about the differences that a comparison of values includes.
func (c *Compared) subject() []string {
	if !c.Absolute {
		return nil
	}
	var list []string
	for _, o := range c.Obstacles {
		if !o.Essential {
			list = append(list, "What differs: "+c.obstacle(o)+".")
		}
	}
	if list == nil {
		list = []string{"OLD and " + c.word + " differ in nothing that is recorded."}
	}
	return list
}

// outcomes returns the numbers of decided comparisons, "slower in 3, no difference in 1", and that of undecided ones.
func outcomes(verdicts map[measure.Verdict]int) (said string, left int) {
	var list []string
	for _, v := range []measure.Verdict{
		measure.Slower, measure.Faster, measure.Higher, measure.Lower, measure.NoDifference, measure.HasFailed, measure.Leaks,
	} {
		if n := verdicts[v]; n > 0 {
			list = append(list, fmt.Sprintf("%s in %d", v, n))
		}
	}
	return strings.Join(list, ", "), verdicts[measure.NotPrecise] + verdicts[measure.TooNoisy] + verdicts[measure.TooFew]
}

// sentence returns the sentence about the change of a cell in its primary metric, which claims no more than its
// verdict.
func (v *comparison) sentence(g *Group, c *measure.Change) string {
	who, what := StackName(c.Cell), of(c.About)
	point, interval := Change(&c.Row)
	how := fmt.Sprintf("%s, 95 %% interval %s", strings.TrimSpace(v.kind(&c.Row)+" "+point), interval)
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
		return fmt.Sprintf("%s: no difference in %s %s: within %s (%s).", who, what, g.Where,
			within(v.c.shownMargin(), g.Primary), how)
	case measure.Slower, measure.Faster:
		if v.c.Absolute {
			return fmt.Sprintf("%s is %s in %s %s: %s went from %s to %s (%s).", who, c.Verdict, v.c.word, g.Where, what,
				valueOf(c.Old), valueOf(c.New), how)
		}
		return fmt.Sprintf("%s is %s in %s %s: its toll on %s went from %s to %s (%s).", who, c.Verdict, v.c.word,
			g.Where, what, toll(c.Old), toll(c.New), how)
	case measure.Higher, measure.Lower:
		if v.c.Absolute {
			return fmt.Sprintf("%s of %s is %s in %s %s: it went from %s to %s (%s).", Label(c.About), who, c.Verdict,
				v.c.word, g.Where, valueOf(c.Old), valueOf(c.New), how)
		}
		return fmt.Sprintf("%s of %s is %s in %s %s: its toll went from %s to %s (%s).", Label(c.About), who, c.Verdict,
			v.c.word, g.Where, toll(c.Old), toll(c.New), how)
	}
	if point == "" {
		return fmt.Sprintf("%s: no result for %s %s: %s.", who, what, g.Where, v.why(g, c))
	}
	if c.Verdict == measure.TooFew {
		return fmt.Sprintf("%s: no verdict on %s %s: each run needs %d generations; OLD has %d and %s has %d (%s).",
			who, what, g.Where, measure.LeastGenerations, c.Old.Generations, v.c.word, c.New.Generations, how)
	}
	if c.Verdict == measure.TooNoisy && c.Moved > c.Floor {
		return fmt.Sprintf("%s: too noisy to tell in %s %s: other programs may have moved it by %s in the two runs, more "+
			"than the margin of %s (%s).", who, what, g.Where, noise(c.Moved, g.Primary), within(v.c.shownMargin(), g.Primary),
			how)
	}
	if c.Verdict == measure.TooNoisy {
		return fmt.Sprintf("%s: too noisy to tell in %s %s: two runs of equal stacks differ by up to %s, more than the "+
			"margin of %s (%s).", who, what, g.Where, noise(c.Floor, g.Primary), within(v.c.shownMargin(), g.Primary), how)
	}
	text := fmt.Sprintf("%s: not precise enough in %s %s (%s)", who, what, g.Where, how)
	if math.IsNaN(c.Floor) {
		text += ": the floor of a run is unknown"
	}
	return text + "."
}

// kind returns the quantity by which two runs are compared; "" for values.
func (v *comparison) kind(r *measure.Row) string {
	switch {
	case v.c.Absolute:
		return ""
	case r.HasDifference:
		return "difference of differences"
	}
	return "ratio of ratios"
}

// toll returns the toll of a row's cell over its baseline; "–" if unknown.
func toll(r *measure.Row) string {
	if r == nil {
		return "–"
	}
	if point, _ := Change(r); point != "" {
		return point
	}
	return "–"
}

// why returns the reason why two rows cannot be compared.
func (v *comparison) why(g *Group, c *measure.Change) string {
	for _, s := range v.c.sides() {
		r := c.Old
		if s.word != "OLD" {
			r = c.New
		}
		switch {
		case r == nil:
			return s.word + " has no value"
		case r.HasRatio || r.HasDifference, v.c.Absolute && (r.Own.HasRatio || r.Own.HasDifference):
			continue
		case r.Generations < 2:
			return fmt.Sprintf("an interval needs 2 generations; %s has %d", s.word, r.Generations)
		case slices.ContainsFunc(s.data.Analysis.Failed, func(f measure.FailedCell) bool {
			return f.Cell == r.Cell.Baseline
		}):
			return "its baseline failed in " + s.word
		}
		if v.c.Absolute {
			return s.word + " has no interval of the value"
		}
		return fmt.Sprintf("%s has no ratio to %s", s.word, g.baseAs)
	}
	if v.c.Absolute {
		return "no ratio could be computed"
	}
	return "no ratio of ratios could be computed"
}

// floorNote returns the note about the floor of the primary metric.
func (v *comparison) floorNote(g *Group) string {
	for _, cell := range v.compared(g) {
		if c := v.changes[cell.ID][g.Primary.Name]; c != nil {
			if !math.IsNaN(c.Floor) && !math.IsInf(c.Floor, 0) {
				return "floor " + noise(c.Floor, g.Primary) + " (the floors of both runs combined)"
			}
		}
	}
	return "floor unknown (it needs a twin of the baseline with at least 5 generations in both runs)"
}

// origins returns for each run its name, its time, its extent and its place.
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
		if on := Read(s.data.Run, a, []Pair{}).Circumstances(); on != "" {
			text += " · " + on
		}
		list = append(list, text)
	}
	return list
}

// drift returns the sentence about the change of the baseline itself.
func (v *comparison) drift(g *Group) string {
	if g.Base == nil {
		return ""
	}
	c := v.changes[g.Base.ID][g.Primary.Name]
	if c == nil || c.Verdict.Failed() {
		return g.baseAs + ": no result in at least one run"
	}
	text := fmt.Sprintf("%s: %s in OLD, %s in %s", g.baseAs, valueOf(c.Old), valueOf(c.New), v.c.word)
	point, interval := drift(c)
	switch {
	case point == "":
	case c.Shift != "":
		text += fmt.Sprintf(" (%s, 95 %% interval %s: %s, which ratios do not show)", point, interval, c.Shift)
	case c.Unsure != "":
		text += " (" + point + ", which the load of the machine may explain)"
	default:
		text += " (" + point + ", which cancels out)"
	}
	return text
}
