package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// Measured returns the sentences about how much was measured, and how far generations differed.
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

// spread returns a range of standard deviations of logarithms of ratios in percent.
func spread(lo, hi float64) string {
	x, y := 100*math.Expm1(lo), 100*math.Expm1(hi)
	n := decimals(y)
	from, to := strconv.FormatFloat(x, 'f', n, 64), strconv.FormatFloat(y, 'f', n, 64)
	if from == to {
		return to + " %"
	}
	return from + " to " + to + " %"
}

// Circumstances returns the facts about the machine and the run that matter for a comparison with another run.
func (v *Reading) Circumstances() string {
	fact := func(key string) string {
		if x, ok := v.Run.Facts[key]; ok {
			text := []string{fmt.Sprint(x)}
			for _, m := range v.Run.Differing(key) {
				text = append(text, fmt.Sprintf("(%s: %v)", m.Machine, m.Facts[key]))
			}
			return Printable(strings.Join(text, " "))
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
	add("load ", fact("load"))
	if share := v.Analysis.Load.IdleText(); share != "" {
		add(share, " of CPU time idle")
	}
	add("affinity ", v.each(func(c *measure.Cell) string { return c.Affinity }))
	add("idle ", v.each(func(c *measure.Cell) string { return c.Idle }))
	add("", v.each(func(c *measure.Cell) string { return c.Family }))
	part := func(kind string) string {
		own := v.each(func(c *measure.Cell) string { return c.Part(kind) })
		if own == "" || own == "auto" {
			return fact(kind)
		}
		return own
	}
	add("MTU ", part("mtu"))
	add("underlay ", fact("underlay"))
	add("TCP ", part("congestion_control"))
	add("nettoll ", Printable(v.Run.Versions["nettoll"]))
	for _, program := range slices.Sorted(maps.Keys(v.Run.Versions)) {
		if program != "nettoll" && program != "binary" { // people cannot use the checksum of the program
			add(Printable(program)+" ", Printable(v.Run.Versions[program]))
		}
	}
	if p := v.Run.Design.Precision; p > 0 {
		add("precision ", strconv.FormatFloat(100*p, 'g', 3, 64)+" %")
	}
	if len(list) > 0 {
		add("seed ", strconv.FormatUint(v.Run.Design.Seed, 10))
	}
	return strings.Join(list, " · ")
}

// each returns the values of all cells, each once.
func (v *Reading) each(value func(*measure.Cell) string) string {
	var list []string
	for i := range v.Run.Cells {
		if x := Printable(value(&v.Run.Cells[i])); x != "" && !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return strings.Join(list, ", ")
}

// End returns the run in one line: "4 slower, 2 no difference, 3 not decided; 126 proofs hold".
func (v *Reading) End() string {
	verdicts := map[measure.Verdict]int{}
	for _, g := range v.Groups {
		for _, c := range g.Compared() {
			if r := g.Row(c, g.Primary.Name); r != nil {
				verdicts[r.Verdict]++
			} else {
				verdicts[measure.NotPrecise]++
			}
		}
	}
	var list []string
	for _, x := range []measure.Verdict{
		measure.Slower, measure.Faster, measure.Higher, measure.Lower, measure.NoDifference, measure.HasFailed, measure.Leaks,
	} {
		if n := verdicts[x]; n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, x))
		}
	}
	if n := verdicts[measure.NotPrecise] + verdicts[measure.TooNoisy] + verdicts[measure.TooFew]; n > 0 {
		list = append(list, fmt.Sprintf("%d not decided", n))
	}
	if list == nil {
		list = []string{"nothing to compare"}
	}
	text := strings.Join(list, ", ") + "; "
	switch proofs, broken, untold := proved(v.Analysis.Proofs); {
	case proofs == 0:
		text += "no proof"
	case broken > 0:
		text += fmt.Sprintf("%d of %s failed", broken, Count(proofs, "proof", "proofs"))
	case untold > 0:
		text += fmt.Sprintf("%d of %s cannot be told", untold, Count(proofs, "proof", "proofs"))
	case proofs == 1:
		text += "1 proof holds"
	default:
		text += fmt.Sprintf("%d proofs hold", proofs)
	}
	return text
}

// Failures returns each failed cell with its reason.
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

// mostNamed is the number of stacks that a warning names at most.
const mostNamed = 4

// doubtful is a warning with everything that it is about.
type doubtful struct {
	text         string
	about        []string // stacks, or labs without a cell
	groups       []*Group // groups of those cells
	fewest, most int      // the least and the largest number of affected trials of a cell; 0 if unknown
	trials       int      // the largest number of all trials of a cell
	failed       bool     // the trials failed
}

// Doubts returns each warning once, with the stacks that it is about. Those about the run come first, then those about
// the largest share of trials. Warnings that [standing] shows are left out.
func (v *Reading) Doubts() []string {
	var all []*doubtful
	for _, w := range v.Analysis.Warnings {
		if w.Machine {
			continue
		}
		d := counted(Printable(w.Text))
		i := slices.IndexFunc(all, func(o *doubtful) bool {
			return o.text == d.text && o.failed == d.failed && (o.trials > 0) == (d.trials > 0) &&
				(len(o.about) > 0) == (w.Cell != "" || w.Lab != "")
		})
		if i < 0 {
			i = len(all)
			all = append(all, d)
		}
		v.concerns(all[i], d, w)
	}
	slices.SortStableFunc(all, func(x, y *doubtful) int { return cmp.Compare(y.rank(), x.rank()) })
	var texts []string
	said := map[string]int{} // index in texts of the line about some stacks
	for _, d := range all {
		who := v.who(d)
		if i, known := said[who]; known && who != "" {
			texts[i] += "; " + d.String()
			continue
		}
		said[who] = len(texts)
		if who != "" {
			who += ": "
		}
		texts = append(texts, who+d.String())
	}
	return texts
}

// counted splits the number of trials from a warning: "… (2 of 30 trials)", "2 of 30 trials failed: pair 3: …".
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

// concerns adds the subject of another warning with the same text.
func (v *Reading) concerns(d, o *doubtful, w measure.Warning) {
	d.fewest, d.most, d.trials = min(d.fewest, o.most), max(d.most, o.most), max(d.trials, o.trials)
	i := slices.IndexFunc(v.Run.Cells, func(c measure.Cell) bool {
		return w.Cell != "" && c.ID == w.Cell || w.Lab != "" && c.Lab == w.Lab
	})
	what := Printable(w.Cell)
	if what == "" && w.Lab != "" {
		what = "lab " + Printable(w.Lab)
	}
	if i >= 0 {
		c := &v.Run.Cells[i]
		if what = StackName(c); c.Twin {
			what += " (twin)"
		}
		if g := v.groupOf(c); g != nil && w.Cell != "" && !slices.Contains(d.groups, g) {
			d.groups = append(d.groups, g)
		}
	}
	if what != "" && !slices.Contains(d.about, what) {
		d.about = append(d.about, what)
	}
}

// groupOf returns the group of a cell; nil if it is in none.
func (v *Reading) groupOf(c *measure.Cell) *Group {
	i := slices.IndexFunc(v.Groups, func(g *Group) bool { return g.one().Group == c.Group })
	if i < 0 {
		return nil
	}
	return v.Groups[i]
}

// rank orders doubts: larger for those about the whole run, then by the share of trials.
func (d *doubtful) rank() float64 {
	const run, failure = 3, 1
	rank := 0.0
	switch {
	case len(d.about) == 0:
		return run
	case d.trials > 0:
		rank = float64(d.most) / float64(d.trials)
	}
	if d.failed {
		rank += failure
	}
	return rank
}

// who names the stacks that a warning is about, and the group if there are several and it is about only one.
func (v *Reading) who(d *doubtful) string {
	who := strings.Join(d.about, ", ")
	if n := len(d.about); n > mostNamed+1 {
		who = fmt.Sprintf("%s and %d more", strings.Join(d.about[:mostNamed], ", "), n-mostNamed)
	}
	if len(d.groups) == 1 && len(v.Groups) > 1 {
		who += " " + d.groups[0].Where
	}
	return who
}

// String returns the warning, with the number of trials.
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
		if len(d.about) > 1 || len(d.groups) > 1 {
			each = " each"
		}
		text += fmt.Sprintf(" (%s of %d trials%s)", often, d.trials, each)
	}
	return text
}

// Claim is a claim about some labs, proved before the first block and after the last. Claims that held in the same
// labs, generations and moments are joined.
type Claim struct {
	Text   string
	Broken []string // each time it did not hold: the lab, the generation, and the details; nil if it always held
	Untold []string // each time it cannot be told whether it held: the lab, the generation, and why; nil if Broken is not
}

// claim holds the pieces of a Claim.
type claim struct {
	claim  string
	extent string // the number of labs and generations
	when   string // "before and after"
	times  int    // the number of times it was proved
	broken []string
	untold []string
}

// plain says that the claim held every time, as far as can be told.
func (c claim) plain() bool { return c.broken == nil && c.untold == nil }

func (c claim) said() Claim {
	switch {
	case c.broken == nil && c.untold != nil:
		return Claim{
			Text:   fmt.Sprintf("cannot be told %d of %d times: %s (%s)", len(c.untold), c.times, c.claim, c.extent),
			Untold: c.untold,
		}
	case c.broken == nil:
		return Claim{Text: fmt.Sprintf("%s (%s; %s)", c.claim, c.when, c.extent)}
	}
	return Claim{
		Text: fmt.Sprintf("failed %d of %d times: %s (%s)", len(c.broken), c.times, c.claim, c.extent), Broken: c.broken,
	}
}

// moment is a time at which a lab was proved.
type moment struct {
	lab        string
	generation int
	when       string
}

func at(p measure.Proof) moment { return moment{p.Lab, p.Generation, p.When} }

// proved returns the number of times that labs were proved, how many of these had a claim that did not hold, and how
// many others one of which that cannot be told.
func proved(proofs []measure.Proof) (times, broken, untold int) {
	all, failed, unknown := map[moment]bool{}, map[moment]bool{}, map[moment]bool{}
	for _, p := range proofs {
		all[at(p)] = true
		switch {
		case !p.OK:
			failed[at(p)] = true
		case p.Untold != "":
			unknown[at(p)] = true
		}
	}
	for m := range unknown {
		if !failed[m] {
			untold++
		}
	}
	return len(all), len(failed), untold
}

// Claims sums up the proofs by their claims.
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
	var moments [][]moment // of each element of list
	for _, name := range names {
		c := newClaim(byClaim[name])
		var of []moment
		for _, p := range byClaim[name] {
			of = append(of, at(p))
		}
		if i := slices.IndexFunc(moments, func(m []moment) bool { return slices.Equal(m, of) }); i >= 0 &&
			c.plain() && list[i].plain() {
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

// newClaim sums up the proofs of one claim.
func newClaim(proofs []measure.Proof) claim {
	labs, generations, places, after := map[string]bool{}, map[int]bool{}, map[moment]bool{}, map[moment]bool{}
	c := claim{claim: Printable(proofs[0].Claim), when: "before and after", times: len(proofs)}
	for _, p := range proofs {
		place := moment{lab: p.Lab, generation: p.Generation}
		labs[p.Lab], generations[p.Generation], places[place] = true, true, true
		if p.When == "after" {
			after[place] = true
		}
		text := fmt.Sprintf("lab %s, generation %d, %s", Printable(p.Lab), p.Generation, Printable(p.When))
		switch {
		case p.OK && p.Untold != "":
			c.untold = append(c.untold, text+": "+Printable(p.Untold))
		case p.OK:
		case p.Detail != "":
			c.broken = append(c.broken, text+": "+Printable(p.Detail))
		default:
			c.broken = append(c.broken, text)
		}
	}
	c.extent = Count(len(labs), "lab", "labs") + ", " + Count(len(generations), "generation", "generations")
	switch {
	case !slices.ContainsFunc(proofs, func(p measure.Proof) bool { return p.When != "during" }):
		c.when = "during all blocks"
	case len(after) == 0:
		c.when = "before, not after"
	case len(after) < len(places):
		c.when = fmt.Sprintf("before, and in %d of %d cases after", len(after), len(places))
	}
	return c
}
