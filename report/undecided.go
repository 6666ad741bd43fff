package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/measure"
)

// undecided reports whether a row is not decided. It is nil if there are too few samples.
func undecided(r *measure.Row) bool {
	return r == nil || slices.Contains([]measure.Verdict{measure.NotPrecise, measure.TooNoisy, measure.TooFew}, r.Verdict)
}

// opened is a comparison that is not decided.
type opened struct {
	g *Group
	c *measure.Cell
	r *measure.Row // nil if there is none
}

func (v *Reading) open() []opened {
	var list []opened
	for _, g := range v.Groups {
		for _, c := range g.Compared() {
			if r := g.Row(c, g.Primary.Name); undecided(r) {
				if _, failed := v.Failed[c.ID]; !failed {
					list = append(list, opened{g, c, r})
				}
			}
		}
	}
	return list
}

// reason returns the reason why a comparison is not decided.
func (o opened) reason() measure.Verdict {
	if o.r == nil {
		return measure.NotPrecise
	}
	return o.r.Verdict
}

// reasons counts the reasons: "3 too noisy to tell, 1 not precise enough".
func reasons(list []opened) string {
	var said []string
	for _, why := range []measure.Verdict{measure.TooNoisy, measure.NotPrecise, measure.TooFew} {
		n := 0
		for _, o := range list {
			if o.reason() == why {
				n++
			}
		}
		if n > 0 {
			said = append(said, fmt.Sprintf("%d %s", n, why))
		}
	}
	return strings.Join(said, ", ")
}

// nothingDecided returns the answer of a run without a decided comparison.
func nothingDecided(list []opened) string {
	all := func(why measure.Verdict) bool {
		return !slices.ContainsFunc(list, func(o opened) bool { return o.reason() != why })
	}
	none := fmt.Sprintf("none of %d comparisons is decided", len(list))
	if len(list) == 1 {
		none = "the only comparison is not decided"
	}
	for _, why := range []measure.Verdict{measure.TooNoisy, measure.NotPrecise, measure.TooFew} {
		if all(why) {
			return Capital(string(why)) + ": " + none + "."
		}
	}
	if slices.ContainsFunc(list, func(o opened) bool { return o.reason() == measure.TooNoisy }) {
		return fmt.Sprintf("Too noisy to tell: %s (%s).", none, reasons(list))
	}
	return fmt.Sprintf("%s: %s.", Capital(none), reasons(list))
}

// Undecided returns sentences about the undecided comparisons: the reasons, and what would help. No headline has them.
func (v *Reading) Undecided() []string {
	list := v.open()
	if len(list) == 0 {
		return nil
	}
	if v.Comparisons() <= mostSentences {
		var texts []string
		for _, o := range list {
			texts = append(texts, "Not decided: "+v.sentence(o.g, o.c))
		}
		return texts
	}
	text := fmt.Sprintf("Not decided: %d of %s: %s.", len(list), Count(v.Comparisons(), "comparison", "comparisons"),
		reasons(list))
	if floor := v.worstFloor(list); floor != "" {
		text += " " + floor
	}
	texts := []string{text}
	first, last := math.Inf(1), 0.0
	for _, o := range list {
		if x := v.longer(o.r); !math.IsNaN(x) {
			first, last = min(first, x), max(last, x)
		}
	}
	if math.IsInf(first, 1) {
		if lost := v.hopeless(list); lost != "" {
			texts = append(texts, strings.TrimSpace(lost))
		}
		return texts
	}
	help := "At this noise " + needed(v.Analysis.Measured*first) + " would decide the first of them"
	switch {
	case needed(v.Analysis.Measured*first) == needed(v.Analysis.Measured*last):
		help = "At this noise " + needed(v.Analysis.Measured*last) + " would decide them"
	case math.IsInf(last, 1):
	default:
		help += ", " + needed(v.Analysis.Measured*last) + " all"
	}
	return append(texts, help+"."+v.hopeless(list))
}

// hopeless names the comparisons that only more than a day of measuring would decide.
func (v *Reading) hopeless(list []opened) string {
	const most = 3
	var names []string
	for _, o := range list {
		if x := v.longer(o.r); v.Analysis.Measured*x >= day {
			names = append(names, StackName(o.c)+" "+o.g.Where)
		}
	}
	if n := len(names); n > most+1 {
		names = append(names[:most], fmt.Sprintf("%d more", n-most))
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf(" It is not worth waiting for %s.", strings.Join(names, "; "))
}

// worstFloor says why comparisons are too noisy: by what other programs may have moved, or by the floor of the noisiest
// group.
func (v *Reading) worstFloor(list []opened) string {
	var worst *Group
	for _, o := range list {
		if o.reason() == measure.TooNoisy && o.r.Moved > o.r.Floor {
			return fmt.Sprintf("Other programs may have moved ratios by %s; the margin is %s.",
				noise(o.r.Moved, o.g.Primary), within(v.Run.Design.Equal(), o.g.Primary))
		}
	}
	for _, o := range list {
		f := o.g.Floor(o.g.Primary.Name)
		if o.reason() == measure.TooNoisy && !o.g.Primary.Differs() &&
			(worst == nil || f > worst.Floor(worst.Primary.Name)) {
			worst = o.g
		}
	}
	if worst == nil {
		return ""
	}
	return fmt.Sprintf("Two equal stacks differ by up to %s (%s %s); the margin is %s.",
		noise(worst.Floor(worst.Primary.Name), worst.Primary), of(worst.Primary), worst.Where,
		within(v.Run.Design.Equal(), worst.Primary))
}

// why returns, as the end of a sentence, the reason why a row is not decided, and what would help.
func (v *Reading) why(g *Group, r *measure.Row) string {
	point, interval := Change(r)
	if point == "" {
		return v.whyNot(g, r) + "."
	}
	how := fmt.Sprintf("%s, 95 %% interval %s", point, interval)
	limit := within(v.Run.Design.Equal(), g.Primary)
	var text string
	switch {
	case r.Verdict == measure.TooFew:
		text = fmt.Sprintf("too few generations: %d of %d (%s)", r.Generations, measure.LeastGenerations, how)
	case r.Verdict == measure.TooNoisy && r.Moved > r.Floor:
		text = fmt.Sprintf("too noisy to tell (%s). Other programs may have moved it by %s, more than the margin of %s",
			how, noise(r.Moved, g.Primary), limit)
	case r.Verdict == measure.TooNoisy:
		text = fmt.Sprintf("too noisy to tell (%s). Two equal stacks differ by up to %s here, more than the margin of %s",
			how, noise(r.Floor, g.Primary), limit)
	case math.IsNaN(r.Floor) || math.IsInf(r.Floor, 0):
		text = fmt.Sprintf("not precise enough (%s): the floor is unknown", how)
	default:
		text = fmt.Sprintf("not precise enough (%s; floor %s, margin %s)", how, noise(r.Floor, g.Primary), limit)
	}
	if x := v.longer(r); !math.IsNaN(x) && !math.IsInf(x, 0) {
		text += "; at this noise " + needed(v.Analysis.Measured*x) + " would decide it"
	}
	return text + "."
}

// longer returns how many times as many generations would decide a row; NaN if unknown. See [measure.Row.Longer].
func (v *Reading) longer(r *measure.Row) float64 {
	switch {
	case r == nil:
		return math.NaN()
	case r.Verdict == measure.TooFew:
		if r.Generations == 0 {
			return math.NaN()
		}
		return measure.LeastGenerations / float64(r.Generations)
	}
	return r.Longer(v.Run.Design.Equal())
}

const day = 24 * 60 * 60 // s

// needed returns a time of measuring (s), rounded up, as a user would ask for it.
func needed(s float64) string {
	switch {
	case !(s < day):
		return "more than a day of measuring"
	case s <= 60:
		return fmt.Sprintf("--time %ds", 10*int(math.Ceil(s/10)))
	case s <= 3600:
		return fmt.Sprintf("--time %dm", int(math.Ceil(s/60)))
	}
	return fmt.Sprintf("--time %s", strings.TrimSuffix((time.Duration(math.Ceil(s/600))*10*time.Minute).String(), "0s"))
}
