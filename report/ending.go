package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// Measured says how much was measured and how far generations differed.
func (v *Reading) Measured() string {
	a := v.Analysis
	if a.Trials == 0 {
		return "Nothing was measured."
	}
	text := fmt.Sprintf("Measured for %s: %s in %s, %s.", duration(a.Measured), Count(a.Blocks, "block", "blocks"),
		Count(a.Generations, "generation", "generations"), Count(a.Trials, "trial", "trials"))
	lo, hi := math.Inf(1), math.Inf(-1)
	least, most := math.MaxInt, 0
	for _, r := range a.Rows {
		if r.Metric != r.Cell.Primary || r.Cell.Twin || r.Cell.Probe != "" || !r.HasRatio {
			continue
		}
		lo, hi = min(lo, r.Estimate.Spread), max(hi, r.Estimate.Spread)
		least, most = min(least, r.Blocks), max(most, r.Blocks)
	}
	if most > 0 {
		if least < a.Blocks {
			blocks := strconv.Itoa(most)
			if least < most {
				blocks = fmt.Sprintf("%d to %d", least, most)
			}
			text += fmt.Sprintf(" The ratios come from %s blocks each.", blocks)
		}
		text += fmt.Sprintf(" The ratios spread by %s between generations (standard deviation).", spread(lo, hi))
	}
	if again := resumed(a.Standing.Resumes); again != "" {
		text += " " + again
	}
	return text
}

// spread prints a range of standard deviations of logarithms of ratios as percents.
func spread(lo, hi float64) string {
	x, y := 100*math.Expm1(lo), 100*math.Expm1(hi)
	n := decimals(y)
	from, to := strconv.FormatFloat(x, 'f', n, 64), strconv.FormatFloat(y, 'f', n, 64)
	if from == to {
		return to + " %"
	}
	return from + " to " + to + " %"
}

// Circumstances is what a reader needs to know about the machine and the run before comparing with another.
func (v *Reading) Circumstances() string {
	fact := func(key string) string {
		if x, ok := v.Run.Facts[key]; ok {
			return Printable(fmt.Sprint(x))
		}
		for _, f := range v.Analysis.Facts {
			if f.Key == key {
				return Printable(fmt.Sprint(f.Value))
			}
		}
		return ""
	}
	var list []string
	add := func(before, text string) {
		if text != "" {
			list = append(list, before+text)
		}
	}
	add("Linux ", fact("kernel"))
	cpu := fact("cpu")
	if n := fact("cpus"); n != "" {
		cpu = strings.TrimPrefix(cpu+", "+n+" CPUs", ", ")
	}
	add("", cpu)
	add("affinity ", v.each(func(c *measure.Cell) string { return c.Affinity }))
	add("", v.each(func(c *measure.Cell) string { return c.Family }))
	add("MTU ", fact("mtu"))
	add("underlay ", fact("underlay"))
	add("TCP ", fact("congestion_control"))
	add("nettoll ", Printable(v.Run.Versions["nettoll"]))
	if p := v.Run.Design.Precision; p > 0 {
		add("precision ", strconv.FormatFloat(100*p, 'g', 3, 64)+" %")
	}
	if len(list) > 0 {
		add("seed ", strconv.FormatUint(v.Run.Design.Seed, 10))
	}
	return strings.Join(list, " · ")
}

// each lists the values that the cells have.
func (v *Reading) each(value func(*measure.Cell) string) string {
	var list []string
	for i := range v.Run.Cells {
		if x := Printable(value(&v.Run.Cells[i])); x != "" && !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return strings.Join(list, ", ")
}

// Failures says of each failed cell why.
func (v *Reading) Failures() []string {
	var list []string
	for _, f := range v.Analysis.Failed {
		text := Printable(f.Cell) + " was not measured: " + Printable(f.Reason)
		if f.Trials > 0 {
			text = fmt.Sprintf("%s failed in %s: %s", Printable(f.Cell), ofAll(f.Trials), Printable(f.Reason))
		}
		list = append(list, text)
	}
	return list
}

func ofAll(trials int) string {
	if trials == 1 {
		return "its only trial"
	}
	return fmt.Sprintf("all %d trials", trials)
}

// mostNamed is how many cells or labs a warning names.
const mostNamed = 4

// doubtful is a warning and all that it is about.
type doubtful struct {
	text         string
	about        []string
	fewest, most int  // in how many trials of one cell; 0 where that is not said
	trials       int  // of how many, at most
	failed       bool // those trials have failed
}

// Doubts has each text once, with what it is about.
func (v *Reading) Doubts() []string {
	var all []*doubtful
	for _, w := range v.Analysis.Warnings {
		d := counted(Printable(w.Text))
		i := slices.IndexFunc(all, func(o *doubtful) bool {
			return o.text == d.text && o.failed == d.failed && (o.trials > 0) == (d.trials > 0)
		})
		if i < 0 {
			i = len(all)
			all = append(all, d)
		}
		all[i].add(d, w)
	}
	texts := make([]string, len(all))
	for i, d := range all {
		texts[i] = d.String()
	}
	return texts
}

// counted takes the number of trials out of a warning: "… (2 of 30 trials)", "2 of 30 trials failed: pair 3: …".
func counted(text string) *doubtful {
	d := &doubtful{text: text}
	if m := regexp.MustCompile(`^(.*) \((\d+) of (\d+) trials\)$`).FindStringSubmatch(text); m != nil {
		d.text = m[1]
		d.most, _ = strconv.Atoi(m[2])
		d.trials, _ = strconv.Atoi(m[3])
	} else if m := regexp.MustCompile(`^(\d+) of (\d+) trials failed: (?:pair \d+: )?(.*)$`).FindStringSubmatch(text); m != nil {
		d.text, d.failed = m[3], true
		d.most, _ = strconv.Atoi(m[1])
		d.trials, _ = strconv.Atoi(m[2])
	}
	d.fewest = d.most
	return d
}

// add adds what another warning of the same text is about.
func (d *doubtful) add(o *doubtful, w measure.Warning) {
	d.fewest, d.most, d.trials = min(d.fewest, o.most), max(d.most, o.most), max(d.trials, o.trials)
	what := Printable(w.Cell)
	if what == "" && w.Lab != "" {
		what = "lab " + Printable(w.Lab)
	}
	if what != "" && !slices.Contains(d.about, what) {
		d.about = append(d.about, what)
	}
}

// String is the warning in a sentence: what it is about, what is the matter, and how often.
func (d *doubtful) String() string {
	text := d.text
	if d.failed {
		text = "trials failed: " + text
	}
	if d.trials > 0 {
		often := strconv.Itoa(d.most)
		if d.fewest < d.most {
			often = fmt.Sprintf("%d to %d", d.fewest, d.most)
		}
		each := ""
		if len(d.about) > 1 {
			each = " each"
		}
		text += fmt.Sprintf(" (%s of %d trials%s)", often, d.trials, each)
	}
	switch n := len(d.about); {
	case n == 0:
		return text
	case n > mostNamed+1:
		return fmt.Sprintf("%s and %d more: %s", strings.Join(d.about[:mostNamed], ", "), n-mostNamed, text)
	}
	return strings.Join(d.about, ", ") + ": " + text
}

// Claim is what was proved of some labs, before the first block and after the last. Claims that held in the same labs,
// generations and moments are one.
type Claim struct {
	Text   string
	Broken []string // the times it did not hold: where, when and what was seen; nil if it always held
}

// claim is what a Claim is made of.
type claim struct {
	claim  string
	extent string // how many labs and generations
	when   string // "before and after"
	times  int    // how often it was tried
	broken []string
}

func (c claim) said() Claim {
	if c.broken == nil {
		return Claim{Text: fmt.Sprintf("%s (%s; %s)", c.claim, c.when, c.extent)}
	}
	return Claim{
		Text: fmt.Sprintf("failed %d of %d times: %s (%s)", len(c.broken), c.times, c.claim, c.extent), Broken: c.broken,
	}
}

// moment is when a lab was proved.
type moment struct {
	lab        string
	generation int
	when       string
}

func at(p measure.Proof) moment { return moment{p.Lab, p.Generation, p.When} }

// proved counts the times that labs were proved, and those at which a claim did not hold.
func proved(proofs []measure.Proof) (times, broken int) {
	held := map[moment]bool{}
	for _, p := range proofs {
		before, known := held[at(p)]
		held[at(p)] = p.OK && (before || !known)
	}
	for _, ok := range held {
		if !ok {
			broken++
		}
	}
	return len(held), broken
}

// Claims sums the proofs up by what they claim.
func (v *Reading) Claims() []Claim {
	var names []string
	byClaim := map[string][]measure.Proof{}
	for _, p := range v.Analysis.Proofs {
		if byClaim[p.Claim] == nil {
			names = append(names, p.Claim)
		}
		byClaim[p.Claim] = append(byClaim[p.Claim], p)
	}
	var list []claim
	var moments [][]moment // of each
	for _, name := range names {
		c := newClaim(byClaim[name])
		var of []moment
		for _, p := range byClaim[name] {
			of = append(of, at(p))
		}
		if i := slices.IndexFunc(moments, func(m []moment) bool { return slices.Equal(m, of) }); i >= 0 &&
			c.broken == nil && list[i].broken == nil {
			list[i].claim += "; " + c.claim
			continue
		}
		list, moments = append(list, c), append(moments, of)
	}
	said := make([]Claim, len(list))
	for i, c := range list {
		said[i] = c.said()
	}
	return said
}

// newClaim sums the proofs of one claim up.
func newClaim(proofs []measure.Proof) claim {
	labs, generations, places, after := map[string]bool{}, map[int]bool{}, map[moment]bool{}, map[moment]bool{}
	c := claim{claim: Printable(proofs[0].Claim), when: "before and after", times: len(proofs)}
	for _, p := range proofs {
		place := moment{lab: p.Lab, generation: p.Generation}
		labs[p.Lab], generations[p.Generation], places[place] = true, true, true
		if p.When == "after" {
			after[place] = true
		}
		if p.OK {
			continue
		}
		text := fmt.Sprintf("lab %s, generation %d, %s", Printable(p.Lab), p.Generation+1, Printable(p.When))
		if p.Detail != "" {
			text += ": " + Printable(p.Detail)
		}
		c.broken = append(c.broken, text)
	}
	c.extent = Count(len(labs), "lab", "labs") + ", " + Count(len(generations), "generation", "generations")
	switch {
	case len(after) == 0:
		c.when = "before, not after"
	case len(after) < len(places):
		c.when = fmt.Sprintf("before, and in %d of %d cases after", len(after), len(places))
	}
	return c
}
