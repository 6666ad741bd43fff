package measure

import (
	"math"
	"slices"
)

func (a *analyzer) estimate(r *Row, gens [][]float64, m Metric) {
	defer func() { r.Effect = r.Effect.drawnAt(a.run.Design.Level()) }()
	if m.Differs() {
		d, err := EstimateDifference(gens)
		if err == nil {
			r.HasDifference, r.Difference, r.Blocks, r.Generations = true, d, d.Blocks, d.Generations
		}
		return // too few generations: the row has their number, and the verdict "not precise enough"
	}
	e, err := EstimateRatio(gens)
	if err == nil {
		r.HasRatio, r.Estimate, r.Blocks, r.Generations = true, e, e.Blocks, e.Generations
	} else if e.Generations >= 2 {
		a.warn(r.Cell.ID, "no ratio of %s (%v): use longer trials (--trial)", m.Name, err)
	}
}

// compare returns, by generation, the cell's values of a metric, and the log ratios (or differences) of its blocks to
// the baseline.
func (c *cellData) compare(base *cellData, m Metric) (values, ratios [][]float64) {
	if c.grouped(base, m) {
		return c.compareGroups(base, histogramPrefix(m), m)
	}
	return c.compareTrials(base, m)
}

// grouped reports whether the cell's values of a metric come from histograms of several blocks, and not from trials.
func (c *cellData) grouped(base *cellData, m Metric) bool {
	prefix := histogramPrefix(m)
	return prefix != "" && len(c.tallies[prefix]) > 0 &&
		!((m.Quantile == 0.5 || m.Kind == KindMean) && c.inTrials(base, m))
}

// inTrials reports whether at least 90 % of the trials of the cell and its baseline have the metric. Trials with too
// few samples for a median are the slow ones: leaving out more of them would make the cell look faster.
func (c *cellData) inTrials(base *cellData, m Metric) bool {
	enough := func(c *cellData) bool { return c == nil || 10*c.count(m.Name) >= 9*len(c.trials) }
	return enough(c) && enough(base)
}

func (c *cellData) compareTrials(base *cellData, m Metric) (values, ratios [][]float64) {
	own := c.columns[m.Name]
	if own == nil {
		return nil, nil
	}
	var bt []*Trial
	var other *column
	if base != nil {
		bt, other = base.trials, base.columns[m.Name]
	}
	// the lists of all generations, one behind the other
	allValues, allRatios := make([]float64, 0, len(c.trials)), make([]float64, 0, len(c.trials))
	var firstValue, firstRatio int
	generation, started, k := 0, false, 0
	for i, t := range c.trials {
		if !own.has[i] {
			continue
		}
		v := own.values[i]
		if !started || t.Generation != generation {
			values, ratios = append(values, nil), append(ratios, nil)
			firstValue, firstRatio = len(allValues), len(allRatios)
			generation, started = t.Generation, true
		}
		g := len(values) - 1
		allValues = append(allValues, v)
		values[g] = slices.Clip(allValues[firstValue:])
		for k < len(bt) && (bt[k].Generation < t.Generation || (bt[k].Generation == t.Generation && bt[k].Block < t.Block)) {
			k++
		}
		if k == len(bt) || bt[k].Generation != t.Generation || bt[k].Block != t.Block || other == nil || !other.has[k] {
			continue
		}
		b := other.values[k]
		x := v - b
		if !m.Differs() {
			x = LogRatio(v, b)
		}
		if m.Differs() || !math.IsNaN(x) {
			allRatios = append(allRatios, x)
			ratios[g] = slices.Clip(allRatios[firstRatio:])
		}
	}
	return values, ratios
}

func (c *cellData) compareGroups(base *cellData, prefix string, m Metric) (values, ratios [][]float64) {
	own := c.tallies[prefix]
	other := own
	if base != nil {
		other = base.tallies[prefix]
	}
	need, of := MinSamples(m.Quantile), func(t tally) float64 { return t.quantile(m.Quantile) }
	if m.Kind == KindMean {
		of = tally.mean
	}
	generation, started := 0, false
	for _, q := range latencyGroups(own, other, need, of) {
		if !started || q.Generation != generation {
			values, ratios = append(values, nil), append(ratios, nil)
			generation, started = q.Generation, true
		}
		g := len(values) - 1
		values[g] = append(values[g], q.Cell)
		if x := LogRatio(q.Cell, q.Baseline); !math.IsNaN(x) {
			ratios[g] = append(ratios[g], x)
		}
	}
	return values, ratios
}

// summary returns the value of a cell in a metric, its 95 % interval over generations (NaN if unknown), and the
// estimate behind both.
func summary(values [][]float64, m Metric) (x, lo, hi float64, own Effect) {
	lo, hi = math.NaN(), math.NaN()
	switch {
	case m.Kind == KindMax:
		x = math.NaN()
		for _, g := range values {
			for _, v := range g {
				if !(x >= v) {
					x = v
				}
			}
		}
		return x, lo, hi, own
	case m.Differs():
		d, err := EstimateDifference(values)
		if err == nil {
			lo, hi, own = max(d.Lo, 0), d.Hi, Effect{HasDifference: true, Difference: d}
		}
		return d.Points, lo, hi, own
	}
	logs := make([][]float64, len(values))
	for i, g := range values {
		logs[i] = make([]float64, len(g))
		for j, v := range g {
			if v < 0 { // a negative value has no logarithm
				return ofMedians(values), lo, hi, own
			}
			logs[i][j] = math.Log(v)
		}
	}
	e, err := EstimateRatio(logs)
	switch {
	case !finite(e.Log): // half of the blocks of a generation are 0
		return ofMedians(values), lo, hi, own
	case err == nil:
		e.Blocks = size(values)
		return e.Ratio, e.Lo, e.Hi, Effect{HasRatio: true, Estimate: e}
	}
	return e.Ratio, lo, hi, own // a single generation has no interval
}

func ofMedians(values [][]float64) float64 {
	medians := make([]float64, len(values))
	for i, g := range values {
		medians[i] = Median(g)
	}
	return Median(medians)
}

// paired sets the value of each compared row to the value of its baseline times the ratio, or plus the difference. The
// width of its interval stays that of its own generations.
func (a *analyzer) paired() {
	type place struct{ cell, metric string }
	values := map[place]float64{} // values of baselines
	for _, r := range a.out.Rows {
		if r.Cell.Baseline == "" {
			values[place{r.Cell.ID, r.Metric}] = r.Value
		}
	}
	for i := range a.out.Rows {
		r := &a.out.Rows[i]
		base, ok := values[place{r.Cell.Baseline, r.Metric}]
		before := r.Value
		switch {
		case !ok:
		case r.HasRatio && r.Value > 0:
			ratio := r.Estimate.Ratio
			if r.Cell.Twin { // the baseline's value is the mean of both
				ratio = math.Sqrt(ratio)
			}
			by := base * ratio / r.Value
			r.Value, r.ValueLo, r.ValueHi = r.Value*by, r.ValueLo*by, r.ValueHi*by
		case r.HasRatio:
			r.Value = base * r.Estimate.Ratio
		case r.HasDifference:
			by := base + r.Difference.Points - r.Value
			if r.Cell.Twin {
				by = base + r.Difference.Points/2 - r.Value
			}
			r.Value, r.ValueLo, r.ValueHi = r.Value+by, r.ValueLo+by, r.ValueHi+by
			r.Value, r.ValueLo = max(r.Value, 0), max(r.ValueLo, 0) // blocks without a baseline could move it below 0
		}
		r.Own = r.Own.moved(before, r.Value)
	}
}

// moved returns the estimate of a value that changed from one number to another. The standard errors stay.
func (e Effect) moved(from, to float64) Effect {
	switch by := LogRatio(to, from); {
	case from == to:
	case e.HasRatio && !finite(by):
		e.HasRatio = false
	case e.HasRatio:
		x := &e.Estimate
		x.Log, x.Ratio, x.Lo, x.Hi = x.Log+by, to, x.Lo*math.Exp(by), x.Hi*math.Exp(by)
	case e.HasDifference:
		x := &e.Difference
		x.Points, x.Lo, x.Hi = to, x.Lo+to-from, x.Hi+to-from
	}
	return e
}

// withoutCut drops empty generations, and a last one with fewer than half the blocks of the one before, if 5 remain:
// its center would be noisier than the others and count as much as they do. The rule looks at counts only, never at
// values.
func withoutCut(gens [][]float64) [][]float64 {
	kept := make([][]float64, 0, len(gens))
	for _, g := range gens {
		if len(g) > 0 {
			kept = append(kept, g)
		}
	}
	if n := len(kept); n > LeastGenerations && 2*len(kept[n-1]) < len(kept[n-2]) {
		kept = kept[:n-1]
	}
	return kept
}

func size(gens [][]float64) int {
	n := 0
	for _, g := range gens {
		n += len(g)
	}
	return n
}
