package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Term is a factor of a combination: what a cell measured in a metric, or what was measured of a lab, to a power.
type Term struct {
	Cell   string // id; "" for a lab
	Metric string
	Power  float64 // as a rule 1 or −1
	Lab    string  // id, of a metric in the lab records
}

// Combined is an estimate of a product of powers of what cells measured, such as the ratio of two ratios. Estimate's
// fields are as of a ratio of two cells.
type Combined struct {
	Estimate
	Floor float64 // ln of a ratio; NaN if unknown. See Combine
}

// Combiner makes estimates from several cells of a run.
type Combiner struct {
	known  Vocabulary // of the run
	cells  map[string]*Cell
	trials map[string][]*Trial // usable ones, by generation and block
	at     map[string]map[visit]*Trial
	floors map[groupMetric]float64
	labs   map[labGeneration]map[string]float64 // metrics
}

type labGeneration struct {
	lab        string
	generation int
}

type visit struct{ generation, block int }

// NewCombiner prepares the trials of a run. The analysis is that of the run: the floors are taken from it.
func NewCombiner(run Run, log *Log, analysis Analysis) *Combiner {
	a := &analyzer{run: run, known: run.Vocabulary(), log: log, cells: make([]cellData, len(run.Cells))}
	a.index()
	c := &Combiner{
		known: a.known, cells: cellsByID(run), trials: map[string][]*Trial{}, at: map[string]map[visit]*Trial{},
		floors: map[groupMetric]float64{}, labs: map[labGeneration]map[string]float64{},
	}
	for _, l := range log.Labs {
		if !l.Rebuilt {
			c.labs[labGeneration{l.Lab, l.Generation}] = l.Metrics
		}
	}
	for i := range run.Cells {
		c.trials[run.Cells[i].ID] = a.cells[i].trials
	}
	for _, f := range analysis.Floors {
		c.floors[groupMetric{f.Group, f.Metric}] = f.Floor
	}
	return c
}

// Combine estimates Π v_i^p_i, where v_i is what the cell of term i measured in its metric and p_i its power:
//
//	x(b) = Σ_i p_i · ln v_i(b)       for each block b in which all cells have a usable trial with their metric
//	m(g) = median_b x(b)             and from here on as [EstimateRatio] does over the generations g
//
// Of a cell over its baseline this is the ratio that [Analyze] finds. All cells are measured in every block, those of
// other groups too, so what drifts more slowly than a block cancels in any combination whose powers add up to 0.
//
// The floor generalises that of a group, f, which is what two equal cells of the group may differ by and so √2 times
// what one of them may be off by:
//
//	floor² = Σ_groups f² · Σ_terms of the group p² / 2
//
// which is f for a ratio within a group and √(f₁²+f₂²) for the ratio of two ratios of two groups (as in [Compare]).
//
// A lab is asked once a generation: what it said is that of each block of it. It has no floor: how far two labs that
// are made of the same parts are apart is in the spread between generations, each of which builds its own.
//
// A metric must be compared by ratio and be in the records of the trials, which percentiles but the median are not. The
// error wraps [ErrFewGenerations] or [ErrNotFinite] where that is the reason.
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
	return Combined{e, c.floor(terms)}, nil
}

// when returns the blocks in which a combination may be known: those of the first cell or, of labs alone, one of each
// generation.
func (c *Combiner) when(terms []Term) []visit {
	var list []visit
	for _, t := range terms {
		if t.Lab != "" {
			continue
		}
		for _, trial := range c.trials[t.Cell] {
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

// block returns the logarithm of a combination in one block, false where a cell has no such value there.
func (c *Combiner) block(at visit, terms []Term) (float64, bool) {
	x := 0.0
	for _, t := range terms {
		metrics := c.labs[labGeneration{t.Lab, at.generation}]
		if t.Lab == "" {
			trial := c.visits(t.Cell)[at]
			if trial == nil {
				return 0, false
			}
			metrics = trial.Metrics
		}
		v, ok := metrics[t.Metric]
		if !ok || v < 0 {
			return 0, false
		}
		x += t.Power * math.Log(v)
	}
	return x, !math.IsNaN(x) // of 0/0
}

// visits returns the trials of a cell by generation and block.
func (c *Combiner) visits(cell string) map[visit]*Trial {
	if c.at[cell] == nil {
		m := make(map[visit]*Trial, len(c.trials[cell]))
		for _, t := range c.trials[cell] {
			m[visit{t.Generation, t.Block}] = t
		}
		c.at[cell] = m
	}
	return c.at[cell]
}

func (c *Combiner) floor(terms []Term) float64 {
	sum := 0.0
	for _, t := range terms {
		if t.Lab != "" {
			continue
		}
		f, ok := c.floors[groupMetric{c.cells[t.Cell].Group, t.Metric}]
		if !ok {
			return math.NaN()
		}
		sum += f * f * t.Power * t.Power / 2
	}
	return math.Sqrt(sum)
}

// Bounds are the ratios between which something is claimed to lie.
type Bounds struct {
	Above float64 // 0: any
	Below float64 // 0 or +Inf: any
}

// Finding is what may be said of a claim.
type Finding string

// Findings.
const (
	Holds       Finding = "holds"
	DoesNotHold Finding = "does not hold"
	CannotTell  Finding = "cannot be told"
)

// Of says whether an exact figure lies within the bounds; a bound itself does not. Of NaN nothing can be told.
func (b Bounds) Of(ratio float64) Finding {
	switch {
	case math.IsNaN(ratio):
		return CannotTell
	case ratio > b.Above && (b.Below == 0 || ratio < b.Below):
		return Holds
	}
	return DoesNotHold
}

// logs returns the bounds that there are as logarithms, and on which side of each the claim is: 1 is above it.
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
}

// Answer is what a run says to a question.
type Answer struct {
	Finding Finding
	// Longer is how many times as many generations would decide a question that cannot be told, if the estimate stayed
	// where it is and the spread between generations as it is; 1 where it is decided, +Inf where no number would, NaN
	// where there is no estimate to go by.
	Longer float64
	// Inside says whether the estimate itself lies within the bounds, which decides what the answer would be then.
	Inside bool
}

// Judge answers questions. Each bound is a hypothesis, that the combination lies right on it, and all bounds of all
// questions are one family for Holm's procedure: that any of the answers "holds" and "does not hold" is wrong happens
// in at most 5 % of runs. A combination is above or below a bound if its interval at the level that Holm's procedure
// gives the bound excludes it, and the estimate is further from it than the floor. A question
//
//   - holds, if the combination is on the claimed side of each bound;
//   - does not hold, if it is on the other side of one;
//   - cannot be told otherwise, and where floor or interval are unknown.
func Judge(list []Question) []Answer {
	var p []float64
	for _, q := range list {
		at, _ := q.Bounds.logs()
		for _, b := range at {
			p = append(p, q.pOf(b))
		}
	}
	levels := Holm(p, drawn)
	answers := make([]Answer, len(list))
	for i, q := range list {
		at, side := q.Bounds.logs()
		answers[i] = q.answer(at, side, levels[:len(at)])
		levels = levels[len(at):]
	}
	return answers
}

// known says whether there is anything to go by.
func (q Question) known() bool {
	return q.Generations >= 2 && finite(q.Log) && finite(q.StdErr) && !math.IsNaN(q.Floor)
}

// pOf is the two-sided p-value of the hypothesis that the logarithm is b; NaN if nothing is known.
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

// longer returns how many times as many generations it takes until an estimate that is this far from a bound (ln) is
// further from it than the half-width of its interval at a level and than the floor, both of which shrink with the root
// of that number; 1 if there are enough.
func (q Question) longer(distance, level float64) float64 {
	half := func(times float64) float64 { // its half-width if only the degrees of freedom changed
		return tQuantile(1-level/2, times*float64(q.Generations)-1) * q.StdErr
	}
	now := half(1)
	switch {
	case distance > now && distance > q.Floor:
		return 1
	case distance == 0:
		return math.Inf(1)
	}
	// times = (half(times)/distance)², which the iteration comes to from both sides in turn.
	const steps = 4
	square := func(h float64) float64 { return max(1, h*h/(distance*distance)) }
	times, before := square(now), 1.0
	for range steps {
		before, times = times, square(half(times))
	}
	return max(times, before, square(q.Floor), math.Nextafter(1, 2)) // not 1, which is decided
}

// Summarise puts the answers to the parts of a claim together, which holds if each of them does, and does not if one
// does not. Longer is how many times as many generations would decide it, as of [Answer]: it takes all parts to hold,
// and one not to.
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

// Verdicts says of combinations what [Analyze] says of cells over their baselines: of cells over whatever else they are
// compared with, in one metric. They are one family for Holm's procedure. The precision is what the run asked for.
func Verdicts(list []Combined, m Metric, precision float64) []Verdict {
	p := make([]float64, len(list))
	for i, c := range list {
		if p[i] = c.P; c.Generations < LeastGenerations {
			p[i] = math.NaN()
		}
	}
	verdicts := make([]Verdict, len(list))
	for i, level := range Holm(p, drawn) {
		if verdicts[i] = TooFew; list[i].Generations < LeastGenerations {
			continue
		}
		r := Row{Effect: Effect{HasRatio: true, Estimate: list[i].Estimate}, Floor: list[i].Floor}
		r.adjusted(level)
		verdicts[i] = r.comparison(precision).Decide(m)
	}
	return verdicts
}
