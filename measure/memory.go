package measure

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// UsualMemory is the memory of the noise that is assumed if no run has measured it, in s: that of virtual machines
// (docs/method.md, "The memory of the noise").
const UsualMemory = 0.1

// remembered is the correlation at which noise counts as forgotten: that of a process which forgets exponentially after
// its time constant.
const remembered = 1 / math.E

// Constants of [EstimateMemory].
const (
	leastOfCell = 3   // least number of trials of a cell in a generation: the center of fewer would absorb the noise
	leastPairs  = 40  // least number of pairs of trials behind a correlation
	nextTrials  = 12  // each trial forms a pair with each of this many next trials
	spacing     = 1.5 // growth of the distance to later partners: a trial has a few dozen pairs, however many there are
	anywhere    = 16  // pairs of any distance for each trial
	ofDistance  = 512 // approximate number of pairs of one distance in a generation: more only make the report slower
	shortest    = 1e-3
	perOctave   = 3 // lags in an octave
	leastLags   = 2 // least number of lags in a bin
	resamples   = 400
)

// Memory is how long the noise of a group's cells lasts: the time between the starts of two trials whose values, each
// relative to its cell's center in the generation, correlate by 1/e.
type Memory struct {
	Group       string
	Trials      int // used, of cells with enough trials in their generation
	Generations int // generations of these trials
	Lags        []Lag
	// s; NaN if unknown, 0 if shorter than the first lag, +Inf if longer than the last one
	Seconds float64
	// ends of the 95 % interval of Seconds, which may also be 0 and +Inf. It is at least as wide as the distance
	// between the two lags around Seconds
	Lo, Hi float64

	Trial float64 // s, length of a trial of the group: the longest
	// Near and Far are the 5th and the 95th percentile, in s, of the time between the starts of a cell and of the
	// nearer one of its baseline and the baseline's twin; NaN if nothing is compared
	Near, Far float64
}

// Lag is a range of times between the starts of two trials of a generation, in s.
type Lag struct {
	From, To    float64
	At          float64 // geometric mean over the pairs
	Pairs       int
	Correlation float64
	Lo, Hi      float64 // 95 % interval of Correlation
}

// Moment is the value of a trial and its time.
type Moment struct {
	Cell  int     // any number that identifies the cell within the group
	Start float64 // s
	Log   float64 // logarithm of the primary metric
}

// EstimateMemory estimates the memory of the noise in the trials of a group, by generation.
//
// The residual x of a trial is its logarithm less the [Center] of those of its cell in that generation. Pairs are two
// trials of different cells in one generation, sorted by the time h between their starts. Their variogram is half the
// mean square of the differences of residuals (G. Matheron, Principles of geostatistics, Econ. Geol. 58 (1963) 1246).
// Here it uses the robust mean of N. Cressie and D. M. Hawkins (Robust estimation of the variogram: I, Math. Geol. 12
// (1980) 115). ∗ stands for all pairs, whatever the time between them:
//
//	γ(h) ∝ (mean |x − x'|^½)⁴,  ρ(h) = 1 − γ(h) / γ(∗)
//
// Both means have the same weights of generations, so that a noisy generation does not look like correlation. The
// factor by which Cressie and Hawkins divide cancels. The memory is the h at which ρ, interpolated linearly over log h,
// first falls below 1/e. Intervals are percentiles over resamples of the generations (B. Efron, Bootstrap methods, Ann.
// Stat. 7 (1979) 1), which are independent. With fewer than 5 generations, or fewer than two lags, the memory is not
// known.
func EstimateMemory(gens [][]Moment) Memory {
	m := Memory{Seconds: math.NaN(), Lo: math.NaN(), Hi: math.NaN(), Near: math.NaN(), Far: math.NaN()}
	var all []variogram
	for _, g := range gens {
		if g = residuals(g); len(g) > 0 {
			m.Generations, m.Trials = m.Generations+1, m.Trials+len(g)
			all = append(all, newVariogram(g))
		}
	}
	if m.Generations < LeastGenerations {
		return m
	}
	all, m.Lags = binned(all)
	if len(m.Lags) < 2 {
		m.Lags = nil
		return m
	}
	drawn := slices.Clone(all)
	correlations(all, m.Lags, func(i int, rho float64) { m.Lags[i].Correlation = rho })
	var between [2]float64
	m.Seconds, between = forgotten(m.Lags)
	if math.IsNaN(m.Seconds) {
		m.Lags = nil
		return m
	}
	random := rand.New(rand.NewPCG(1, 2)) // equal records give equal figures
	lags, ranges, rhos := slices.Clone(m.Lags), make([]float64, 0, resamples), make([][]float64, len(m.Lags))
	for range resamples {
		for i := range drawn {
			drawn[i] = all[random.IntN(len(all))]
		}
		correlations(drawn, lags, func(i int, rho float64) {
			if lags[i].Correlation = rho; !math.IsNaN(rho) {
				rhos[i] = append(rhos[i], rho)
			}
		})
		if x, _ := forgotten(lags); !math.IsNaN(x) {
			ranges = append(ranges, x)
		}
	}
	share := expanded(0.95, len(all))
	m.Lo, m.Hi = middle(ranges, share)
	m.Lo, m.Hi = min(m.Lo, between[0]), max(m.Hi, between[1])
	for i := range m.Lags {
		m.Lags[i].Lo, m.Lags[i].Hi = middle(rhos[i], share)
	}
	return m
}

// residuals returns the trials of the cells that have enough trials, minus their cell's center, in order of time.
func residuals(trials []Moment) []Moment {
	logs := map[int][]float64{}
	for of, list := range runs(trials) {
		all := logs[of]
		for _, t := range list {
			all = append(all, t.Log)
		}
		logs[of] = all
	}
	list := make([]Moment, 0, len(trials))
	centers := map[int]float64{}
	for of, run := range runs(trials) {
		if len(logs[of]) < leastOfCell {
			continue
		}
		center, known := centers[of]
		if !known {
			center = Center(logs[of])
			centers[of] = center
		}
		for _, t := range run {
			t.Log -= center
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(x, y Moment) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.Cell, y.Cell))
	})
	return list
}

// runs divides trials where the cell changes.
func runs(trials []Moment) iter.Seq2[int, []Moment] {
	return func(yield func(int, []Moment) bool) {
		for from := 0; from < len(trials); {
			to := from + 1
			for to < len(trials) && trials[to].Cell == trials[from].Cell {
				to++
			}
			if !yield(trials[from].Cell, trials[from:to]) {
				return
			}
			from = to
		}
	}
}

// variogram is the variogram of one generation.
type variogram struct {
	lags    []lagSum // by lag
	overall float64  // mean root of the difference of any two residuals
}

// lagSum adds up pairs of trials.
type lagSum struct {
	pairs    int
	roots    float64 // of the differences
	logs     float64 // of the lags
	from, to float64
}

func (s *lagSum) add(o lagSum) {
	switch {
	case o.pairs == 0:
		return
	case s.pairs == 0:
		*s = o
		return
	}
	s.pairs, s.roots, s.logs = s.pairs+o.pairs, s.roots+o.roots, s.logs+o.logs
	s.from, s.to = min(s.from, o.from), max(s.to, o.to)
}

// newVariogram limits the number of pairs, however many trials there are. It pairs a trial with the next ones, with
// some later ones, and with others from the whole generation. If there are many trials, it uses only every second or
// third of them, and so on.
func newVariogram(g []Moment) variogram {
	var v variogram
	root := func(i, j int) float64 { return math.Sqrt(math.Abs(g[i].Log - g[j].Log)) }
	for away := 1; away < len(g); away = grown(away) {
		for i := 0; i < len(g)-away; i += 1 + (len(g)-away)/ofDistance {
			j := i + away
			lag := g[j].Start - g[i].Start
			if g[i].Cell == g[j].Cell || !(lag > 0) {
				continue
			}
			log := math.Log2(lag / shortest)
			at := max(0, int(perOctave*log))
			for len(v.lags) <= at {
				v.lags = append(v.lags, lagSum{})
			}
			v.lags[at].add(lagSum{1, root(i, j), log, lag, lag})
		}
	}
	sum, n := 0.0, 0
	strides := min(anywhere, len(g)-1)
	for s := range strides {
		away := 1 + (2*s+1)*(len(g)-1)/(2*strides)
		for i := 0; i < len(g); i += 1 + len(g)/ofDistance {
			if j := (i + away) % len(g); g[i].Cell != g[j].Cell {
				sum, n = sum+root(i, j), n+1
			}
		}
	}
	v.overall = sum / float64(max(n, 1))
	return v
}

// grown returns the distance that follows a distance.
func grown(away int) int {
	if away < nextTrials {
		return away + 1
	}
	return int(spacing * float64(away))
}

// binned joins neighbouring lags into bins with enough pairs. A lag far from all others has its own bin, or none.
func binned(all []variogram) ([]variogram, []Lag) {
	var totals []lagSum
	for _, v := range all {
		for i, s := range v.lags {
			if i == len(totals) {
				totals = append(totals, lagSum{})
			}
			totals[i].add(s)
		}
	}
	var bins [][2]int // of lags, the second exclusive
	first, pairs, joined := 0, 0, false
	end := func(at int) {
		switch {
		case pairs >= leastPairs:
			bins, joined = append(bins, [2]int{first, at}), true
		case pairs > 0 && joined:
			bins[len(bins)-1][1] = at
		}
		pairs = 0
	}
	empty := 0
	for i, s := range totals {
		if s.pairs == 0 {
			empty++
			continue
		}
		switch {
		case empty >= perOctave:
			end(i)
			joined = false
		case pairs >= leastPairs && i-first >= leastLags:
			end(i)
		}
		if pairs == 0 {
			first = i
		}
		empty, pairs = 0, pairs+s.pairs
	}
	end(len(totals))
	lags := make([]Lag, len(bins))
	for i, b := range bins {
		var sum lagSum
		for _, s := range totals[b[0]:b[1]] {
			sum.add(s)
		}
		lags[i] = Lag{
			From: stamped(sum.from), To: stamped(sum.to), Pairs: sum.pairs,
			At: shortest * math.Exp2(sum.logs/float64(sum.pairs)),
		}
	}
	list := make([]variogram, len(all))
	for k, v := range all {
		list[k] = variogram{make([]lagSum, len(bins)), v.overall}
		for i, b := range bins {
			for j := b[0]; j < min(b[1], len(v.lags)); j++ {
				list[k].lags[i].add(v.lags[j])
			}
		}
	}
	return list, lags
}

// stamped rounds a difference of times to the precision of the records, 0.1 ms.
func stamped(s float64) float64 { return math.Round(1e4*s) / 1e4 }

// correlations calls take with the correlation at each lag, or NaN if it is unknown.
func correlations(all []variogram, lags []Lag, take func(i int, rho float64)) {
	for i := range lags {
		var here, overall float64
		for _, v := range all {
			here += v.lags[i].roots
			overall += v.overall * float64(v.lags[i].pairs)
		}
		rho := math.NaN()
		if overall > 0 {
			rho = max(-1, 1-math.Pow(here/overall, 4)) // of a drift it would be less
		}
		take(i, rho)
	}
}

// forgotten returns the lag at which the correlation first falls below 1/e, as in [Memory.Seconds], and the lags on
// both sides of it.
func forgotten(lags []Lag) (float64, [2]float64) {
	var before *Lag
	for i := range lags {
		l := &lags[i]
		switch {
		case math.IsNaN(l.Correlation):
			continue
		case l.Correlation >= remembered:
			before = l
			continue
		case before == nil:
			return 0, [2]float64{0, l.At}
		}
		part := (before.Correlation - remembered) / (before.Correlation - l.Correlation)
		return before.At * math.Pow(l.At/before.At, part), [2]float64{before.At, l.At}
	}
	if before == nil {
		return math.NaN(), [2]float64{}
	}
	return math.Inf(1), [2]float64{before.At, math.Inf(1)}
}

// expanded returns the share of resamples of n observations that lie between the ends of an interval. It is larger than
// share, because resamples of few observations scatter too little (T. C. Hesterberg, What teachers should know about
// the bootstrap, Am. Stat. 69 (2015) 371, expanded percentiles).
func expanded(share float64, n int) float64 {
	wide := tQuantile((1+share)/2, float64(n-1)) * math.Sqrt(float64(n)/float64(n-1))
	return math.Erf(wide / math.Sqrt2)
}

// middle returns the ends of the middle share of values, whose order it changes; NaN if there are none.
func middle(x []float64, share float64) (lo, hi float64) {
	if len(x) == 0 {
		return math.NaN(), math.NaN()
	}
	cut := int((1 - share) / 2 * float64(len(x)))
	last := len(x) - 1 - cut
	partition(x, cut)
	partition(x[cut:], last-cut)
	return x[cut], x[last]
}

// Memories estimates the memory of each group's noise in its primary metric, in the order of the run's cells. It leaves
// out cells with a probe, members of mixes that are measured alone, and groups whose primary metric is compared by
// difference.
func (a Analysis) Memories() []Memory {
	if a.from == nil {
		return nil
	}
	return slices.Clone(a.from.memories())
}

// estimateMemories computes the result of [Analysis.Memories].
func (a *analyzer) estimateMemories() []Memory {
	var groups []string
	cells := map[string][]int{}
	for i, c := range a.run.Cells {
		if m, _ := a.known.Lookup(c.Primary); c.Probe != "" || c.Alone != "" || m.Differs() {
			continue
		}
		if cells[c.Group] == nil {
			groups = append(groups, c.Group)
		}
		cells[c.Group] = append(cells[c.Group], i)
	}
	list := make([]Memory, len(groups))
	each(len(groups), func(i int) { list[i] = a.memory(groups[i], cells[groups[i]]) })
	return list
}

// memory estimates the memory of the group that has the cells.
func (a *analyzer) memory(group string, cells []int) Memory {
	byGeneration := map[int][]Moment{}
	var bases [][]*Trial // those with a value
	longest := 0.0
	for _, i := range cells {
		cell, data := &a.run.Cells[i], &a.cells[i]
		longest = max(longest, a.run.Design.TrialSeconds[cell.ID])
		primary := data.columns[cell.Primary]
		if primary == nil {
			continue
		}
		base := make([]*Trial, 0, len(data.trials))
		for from := 0; from < len(data.trials); {
			generation := data.trials[from].Generation
			list := byGeneration[generation]
			for ; from < len(data.trials) && data.trials[from].Generation == generation; from++ {
				if x := primary.values[from]; primary.has[from] && x > 0 {
					list = append(list, Moment{i, data.trials[from].Start, math.Log(x)})
					base = append(base, data.trials[from])
				}
			}
			byGeneration[generation] = list
		}
		if cell.Baseline == "" || cell.Twin {
			bases = append(bases, base)
		}
	}
	var gens [][]Moment
	for _, g := range slices.Sorted(maps.Keys(byGeneration)) {
		gens = append(gens, byGeneration[g])
	}
	var away []float64
	for _, i := range cells {
		if c := &a.run.Cells[i]; c.Baseline != "" && !c.Twin {
			away = append(away, nearest(a.cells[i].trials, bases)...)
		}
	}
	m := EstimateMemory(gens)
	m.Group, m.Trial = group, longest
	m.Near, m.Far = middle(away, 0.9)
	return m
}

// nearest returns, for each trial that has one of others in its block, the time to the nearest of them, in s. All lists
// are in the order of blocks.
func nearest(trials []*Trial, others [][]*Trial) (away []float64) {
	all := slices.Repeat([]float64{math.Inf(1)}, len(trials))
	for _, list := range others {
		next := 0
		for i, t := range trials {
			for next < len(list) && byBlock(list[next], t) < 0 {
				next++
			}
			if next < len(list) && blockOf(list[next]) == blockOf(t) {
				all[i] = min(all[i], math.Abs(t.Start-list[next].Start))
			}
		}
	}
	away = all[:0]
	for _, x := range all {
		if finite(x) {
			away = append(away, stamped(x))
		}
	}
	return away
}
