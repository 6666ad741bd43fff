package measure

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Term is a factor of a combination: the value of a cell or a lab in a metric, to a power.
type Term struct {
	Cell   string // id; "" for a lab
	Metric string
	Power  float64 // usually 1 or −1
	Lab    string  // id; Metric is then one of the lab records
}

// Combined is an estimate of a product of powers of values, such as the ratio of two ratios. Its Estimate has the
// fields of a ratio of two cells.
type Combined struct {
	Estimate
	// Floor is the logarithm of a ratio; NaN if unknown; see [Combiner.Combine]. It is not below what other programs may
	// have moved.
	Floor float64
}

// Combiner makes estimates from several cells of a run.
type Combiner struct {
	known  Vocabulary // of the run
	level  float64    // error rate of its intervals
	cells  map[string]*Cell
	data   map[string]*cellData
	at     map[string]map[visit]int // which trial of a cell is that of a block
	moved  float64                  // see [Analysis]
	floors map[groupMetric]float64
	labs   map[labGeneration]map[string]float64 // metrics
}

type labGeneration struct {
	lab        string
	generation int
}

// visit names a block of a run.
type visit struct{ generation, block int }

// NewCombiner prepares the trials of a run. analysis is the analysis of the same run; it gives the floors.
func NewCombiner(run Run, log *Log, analysis Analysis) *Combiner {
	a := &analyzer{run: run, known: run.Vocabulary(), log: log, cells: make([]cellData, len(run.Cells))}
	a.index()
	c := &Combiner{
		known: a.known, level: run.Design.Level(), cells: cellsByID(run), data: map[string]*cellData{},
		at:     map[string]map[visit]int{},
		floors: map[groupMetric]float64{}, labs: map[labGeneration]map[string]float64{},
	}
	for _, l := range log.Labs {
		at := labGeneration{l.Lab, l.Generation}
		if l.Rebuilt {
			continue
		}
		if c.labs[at] == nil {
			c.labs[at] = map[string]float64{}
		}
		maps.Copy(c.labs[at], l.Metrics)
	}
	a.joints()
	for i := range run.Cells {
		c.data[run.Cells[i].ID] = &a.cells[i]
		if a.joint[i] != nil {
			c.data[run.Cells[i].ID] = a.joint[i]
		}
		if a.leaky(&run.Cells[i]) != "" {
			c.data[run.Cells[i].ID] = &cellData{} // it gives no result
		}
	}
	c.moved = analysis.Moved
	for _, f := range analysis.Floors {
		c.floors[groupMetric{f.Group, f.Metric}] = f.Floor
	}
	return c
}

// Combine estimates Π v_i^p_i, where v_i is the value of the cell of term i in its metric and p_i its power:
//
//	x(b) = Σ_i p_i · ln v_i(b)       for each block b in which all cells have a usable trial with their metric
//	m(g) = center_b x(b)             and from here on as [EstimateRatio] does over the generations g
//
// For a cell over its baseline, this is the ratio that [Analyze] finds. All cells, in all groups, are measured in every
// block. So drifts slower than a block cancel in every combination whose powers add up to 0.
//
// The floor extends the floor f of a group. Two equal cells of the group may differ by up to f, so one of them may be
// off by f/√2:
//
//	floor² = Σ_groups f² · Σ_terms of the group p² / 2
//
// which is f for a ratio within a group, and √(f₁²+f₂²) for the ratio of two ratios of two groups (as in [Compare]).
//
// A lab has one value in each generation, which stands for each of its blocks. It has no floor: each generation builds
// its own lab, so the spread between generations already has the difference between two equal labs.
//
// A metric must be compared by ratio and be in the records of the trials. Percentiles other than the median are not. If
// too few generations or a zero are the reason, the error wraps [ErrFewGenerations] or [ErrNotFinite].
func (c *Combiner) Combine(terms []Term) (Combined, error) {
	nothing := Combined{Floor: math.NaN()}
	if len(terms) == 0 {
		return nothing, fmt.Errorf("combine cells: no term: %w", ErrFewGenerations)
	}
	for _, t := range terms {
		if t.Lab == "" && c.cells[t.Cell] == nil {
			return nothing, fmt.Errorf("combine cells: %q is not a cell of this run", t.Cell)
		}
		if m, ok := c.known.Lookup(t.Metric); !ok || m.Differs() {
			return nothing, fmt.Errorf("combine cells: metric %q is not one that is compared by ratio", t.Metric)
		}
	}
	var gens [][]float64
	generation := 0
	for _, at := range c.when(terms) {
		x, ok := c.block(at, terms)
		if !ok {
			continue
		}
		if gens == nil || at.generation != generation {
			gens, generation = append(gens, nil), at.generation
		}
		g := len(gens) - 1
		gens[g] = append(gens[g], x)
	}
	e, err := EstimateRatio(withoutCut(gens))
	if err != nil {
		return Combined{e, math.NaN()}, fmt.Errorf("combine cells: %w", err)
	}
	i := e.Interval(c.level)
	e.Lo, e.Hi = i.Lo, i.Hi
	return Combined{e, c.floor(terms)}, nil
}

// when returns the blocks to look at: those of the first cell or, for labs alone, one for each generation.
func (c *Combiner) when(terms []Term) []visit {
	var list []visit
	for _, t := range terms {
		if t.Lab != "" {
			continue
		}
		for _, trial := range c.data[t.Cell].trials {
			list = append(list, visit{trial.Generation, trial.Block})
		}
		return list
	}
	for at := range c.labs {
		if at.lab == terms[0].Lab {
			list = append(list, visit{generation: at.generation})
		}
	}
	slices.SortFunc(list, func(a, b visit) int { return cmp.Compare(a.generation, b.generation) })
	return list
}

// block returns the logarithm of a combination in one block; false if a cell has no value there, or if it is 0/0.
func (c *Combiner) block(at visit, terms []Term) (float64, bool) {
	x := 0.0
	for _, t := range terms {
		v, ok := c.value(at, t)
		if !ok || v < 0 {
			return 0, false
		}
		x += t.Power * math.Log(v)
	}
	return x, !math.IsNaN(x) // of 0/0
}

// value returns what a term's cell, or lab, measured in a block.
func (c *Combiner) value(at visit, t Term) (v float64, ok bool) {
	if t.Lab != "" {
		v, ok = c.labs[labGeneration{t.Lab, at.generation}][t.Metric]
		return v, ok
	}
	i, ok := c.visits(t.Cell)[at]
	column := c.data[t.Cell].columns[t.Metric]
	if !ok || column == nil {
		return 0, false
	}
	return column.values[i], column.has[i]
}

// visits returns which trial of a cell is that of a block.
func (c *Combiner) visits(cell string) map[visit]int {
	if c.at[cell] == nil {
		m := make(map[visit]int, len(c.data[cell].trials))
		for i, t := range c.data[cell].trials {
			m[visit{t.Generation, t.Block}] = i
		}
		c.at[cell] = m
	}
	return c.at[cell]
}

func (c *Combiner) floor(terms []Term) float64 {
	sum, ratios := 0.0, 0.0
	for _, t := range terms {
		if t.Lab != "" {
			continue
		}
		f, ok := c.floors[groupMetric{c.cells[t.Cell].Group, t.Metric}]
		if !ok {
			return math.NaN()
		}
		sum += f * f * t.Power * t.Power / 2
		ratios += math.Abs(t.Power) / 2
	}
	return max(math.Sqrt(sum), ratios*c.moved)
}

// Bounds are the limits between which a combination lies according to a claim.
type Bounds struct {
	Above float64 // 0: any
	Below float64 // 0 or +Inf: any
}

// Finding is the answer to a claim.
type Finding string

// Findings.
const (
	Holds       Finding = "holds"
	DoesNotHold Finding = "does not hold"
	CannotTell  Finding = "cannot be told"
)

// Of returns Holds if an exact ratio lies strictly within the bounds, CannotTell for NaN, and else DoesNotHold.
func (b Bounds) Of(ratio float64) Finding {
	switch {
	case math.IsNaN(ratio):
		return CannotTell
	case ratio > b.Above && (b.Below == 0 || ratio < b.Below):
		return Holds
	}
	return DoesNotHold
}

// logs returns the logarithms of the bounds, and the side of each on which the claim lies: 1 above it, −1 below.
func (b Bounds) logs() (at []float64, side []int) {
	if b.Above > 0 {
		at, side = append(at, math.Log(b.Above)), append(side, 1)
	}
	if b.Below > 0 && !math.IsInf(b.Below, 1) {
		at, side = append(at, math.Log(b.Below)), append(side, -1)
	}
	return at, side
}

// Question is a claim about a combination.
type Question struct {
	Combined
	Bounds Bounds
	// Terms are what is combined: questions with the same bound of the same terms share a hypothesis. Without terms a
	// question shares none.
	Terms []Term
}

// Answer is the answer of a run to a question.
type Answer struct {
	Finding Finding
	// Longer is how many times as many generations would decide the question, if the estimate and the spread between
	// generations stayed as they are. It is 1 if the question is decided, +Inf if no number would decide it, and NaN if
	// there is no estimate.
	Longer float64
	// Inside reports whether the estimate itself lies within the bounds, and so which answer more generations would give.
	Inside bool
}

// Judge answers questions. Each bound is a hypothesis: the combination lies exactly on it. All bounds of all questions
// are one family for Holm's procedure. So in at most 5 % of runs any of the answers "holds" and "does not hold" is
// wrong. If several questions have a bound of the same terms, or of a ratio and of its inverse, it is one hypothesis:
// it is measured once, and counts once. A combination is above or below a bound if two conditions hold: its interval,
// at the level that Holm's procedure gives the bound, excludes the bound; and the estimate is further from it than the
// floor. A question
//
//   - holds, if the combination is on the claimed side of each bound;
//   - does not hold, if it is on the other side of one;
//   - cannot be told otherwise, and if floor or interval are unknown.
//
// alpha is the error rate: that of the run, [Design.Level], or that of a look, [LookLevel].
func Judge(list []Question, alpha float64) []Answer {
	var p []float64
	seen := map[hypothesis]int{}
	family := make([][]int, len(list)) // of each bound of a question, which hypothesis it is
	for i, q := range list {
		at, _ := q.Bounds.logs()
		for _, b := range at {
			h := q.hypothesis(b)
			n, again := seen[h]
			if !again || h.terms == "" {
				n = len(p)
				p, seen[h] = append(p, q.pOf(b)), n
			}
			family[i] = append(family[i], n)
		}
	}
	levels := Holm(p, alpha)
	answers := make([]Answer, len(list))
	for i, q := range list {
		at, side := q.Bounds.logs()
		own := make([]float64, len(at))
		for j, n := range family[i] {
			own[j] = levels[n]
		}
		answers[i] = q.answer(at, side, own)
	}
	return answers
}

// hypothesis is a combination and its supposed distance from its estimate (ln), whichever way round the ratio is
// written.
type hypothesis struct {
	terms    string // "": no other question has the same
	distance float64
}

// hypothesis returns what it would mean that the combination lies on a bound.
func (q Question) hypothesis(b float64) hypothesis {
	if !q.known() {
		return hypothesis{}
	}
	powers := map[Term]float64{}
	for _, t := range q.Terms {
		powers[Term{Cell: t.Cell, Metric: t.Metric, Lab: t.Lab}] += t.Power
	}
	terms := slices.SortedFunc(maps.Keys(powers), func(a, b Term) int {
		return cmp.Or(cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Lab, b.Lab), cmp.Compare(a.Metric, b.Metric))
	})
	const ends = 1e9 // the order of a sum changes less than 1/ends
	h := hypothesis{distance: math.Round((q.Log-b)*ends) / ends}
	sign := 1.0
	if len(terms) > 0 && powers[terms[0]] < 0 {
		sign = -1
	}
	h.distance *= sign
	for _, t := range terms {
		h.terms += fmt.Sprintf("%q %q %q %g\n", t.Cell, t.Lab, t.Metric, sign*powers[t])
	}
	return h
}

// known reports whether the question has an estimate, an interval and a floor.
func (q Question) known() bool {
	return q.Generations >= 2 && finite(q.Log) && finite(q.StdErr) && !math.IsNaN(q.Floor)
}

// pOf returns the two-sided p-value of the hypothesis that the logarithm is b; NaN if nothing is known.
func (q Question) pOf(b float64) float64 {
	if !q.known() {
		return math.NaN()
	}
	return twoSided(q.Log-b, q.StdErr, q.DF)
}

func (q Question) answer(at []float64, claimed []int, levels []float64) Answer {
	if !q.known() {
		return Answer{CannotTell, math.NaN(), false}
	}
	a := Answer{Finding: Holds, Longer: 1, Inside: q.Bounds.Of(math.Exp(q.Log)) == Holds}
	inside, outside := 1.0, math.Inf(1)
	for i, b := range at {
		d := (q.Log - b) * float64(claimed[i]) // positive on the claimed side
		longer := q.longer(math.Abs(d), levels[i])
		switch {
		case longer > 1 && d > 0:
			inside = max(inside, longer)
		case longer > 1:
			outside = min(outside, longer)
		case d < 0:
			a.Finding = DoesNotHold
		}
		if longer > 1 && a.Finding == Holds {
			a.Finding = CannotTell
		}
	}
	if a.Finding == CannotTell {
		if a.Longer = outside; a.Inside {
			a.Longer = inside
		}
	}
	return a
}

// longer returns how many times as many generations move an estimate at this distance from a bound (ln) out of the
// half-width of its interval at a level, and out of the floor. Both shrink with the square root of that number. It is 1
// if there are enough.
func (q Question) longer(distance, level float64) float64 {
	half := func(times float64) float64 { // the half-width if only the degrees of freedom changed
		return tQuantile(1-level/2, times*float64(q.Generations)-1) * q.StdErr
	}
	now := half(1)
	switch {
	case distance > now && distance > q.Floor:
		return 1
	case distance == 0:
		return math.Inf(1)
	}
	// The iteration approaches times = (half(times)/distance)² from both sides in turn.
	const steps = 4
	square := func(h float64) float64 { return max(1, h*h/(distance*distance)) }
	times, before := square(now), 1.0
	for range steps {
		before, times = times, square(half(times))
	}
	return max(times, before, square(q.Floor), math.Nextafter(1, 2)) // more than 1, which would mean decided
}

// Summarise joins the answers to the parts of a claim. The claim holds if all of its parts hold, and does not hold if
// one of them does not. Longer says how many times as many generations would decide it, as in [Answer].
func Summarise(parts []Answer) Answer {
	if len(parts) == 0 {
		return Answer{CannotTell, math.NaN(), false}
	}
	sum := Answer{Finding: Holds, Longer: 1, Inside: true}
	all, one := 1.0, math.Inf(1)
	for _, a := range parts {
		sum.Inside = sum.Inside && a.Inside
		switch a.Finding {
		case Holds:
		case DoesNotHold:
			sum.Finding = DoesNotHold
		case CannotTell:
			if sum.Finding == Holds {
				sum.Finding = CannotTell
			}
			all = max(all, a.Longer)
			if !a.Inside && a.Longer < one {
				one = a.Longer
			}
		}
	}
	if sum.Finding == CannotTell {
		sum.Longer = all
		if !math.IsInf(one, 1) {
			sum.Longer = one
		}
	}
	return sum
}

// Verdicts returns the verdict on each combination in one metric, by the rules of [Analyze]. All of them are one family
// for Holm's procedure. Margin and error rate are those of the run's design.
func Verdicts(list []Combined, m Metric, d Design) []Verdict {
	p := make([]float64, len(list))
	for i, c := range list {
		if p[i] = c.P; c.Generations < LeastGenerations {
			p[i] = math.NaN()
		}
	}
	verdicts := make([]Verdict, len(list))
	for i, level := range Holm(p, d.Level()) {
		if verdicts[i] = TooFew; list[i].Generations < LeastGenerations {
			continue
		}
		r := Row{Effect: Effect{HasRatio: true, Estimate: list[i].Estimate}, Floor: list[i].Floor}
		r.adjusted(level)
		verdicts[i] = r.comparison(d.Equal()).Decide(m)
	}
	return verdicts
}
