package measure

import (
	"math"
)

func (a *analyzer) estimate(r *Row, gens [][]float64, m Metric) {
	if m.Differs() {
		d, err := EstimateDifference(gens)
		if err == nil {
			r.HasDifference, r.Difference, r.Blocks, r.Generations = true, d, d.Blocks, d.Generations
		}
		return // too few generations: the row says how many, and "not precise enough"
	}
	e, err := EstimateRatio(gens)
	if err == nil {
		r.HasRatio, r.Estimate, r.Blocks, r.Generations = true, e, e.Blocks, e.Generations
	} else if e.Generations >= 2 {
		a.warn(r.Cell.ID, "%s: %v: no ratio", m.Name, err)
	}
}

// compare returns, by generation, the cell's values of a metric and its blocks' log ratios (or differences) to its
// baseline.
func (c *cellData) compare(base *cellData, m Metric) (values, ratios [][]float64) {
	if prefix := histogramPrefix(m); prefix != "" && len(c.tallies[prefix]) > 0 &&
		!((m.Quantile == 0.5 || m.Kind == KindMean) && c.inTrials(base, m)) {
		return c.compareGroups(base, prefix, m)
	}
	return c.compareTrials(base, m)
}

// inTrials says whether at least 90 % of the trials of the cell and its baseline have the metric: trials with too few
// samples for a median are the slow ones, and leaving out more of them would flatter.
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
	generation, started, k := 0, false, 0
	for i, t := range c.trials {
		if !own.has[i] {
			continue
		}
		v := own.values[i]
		if !started || t.Generation != generation {
			values, ratios = append(values, nil), append(ratios, nil)
			generation, started = t.Generation, true
		}
		g := len(values) - 1
		values[g] = append(values[g], v)
		for k < len(bt) && (bt[k].Generation < t.Generation || (bt[k].Generation == t.Generation && bt[k].Block < t.Block)) {
			k++
		}
		if k == len(bt) || bt[k].Generation != t.Generation || bt[k].Block != t.Block || other == nil || !other.has[k] {
			continue
		}
		b := other.values[k]
		if m.Differs() {
			ratios[g] = append(ratios[g], v-b)
		} else if x := LogRatio(v, b); !math.IsNaN(x) {
			ratios[g] = append(ratios[g], x)
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

// summary returns the value of a row.
func summary(values [][]float64, m Metric) float64 {
	switch {
	case m.Kind == KindMax:
		x := math.NaN()
		for _, g := range values {
			for _, v := range g {
				if !(x >= v) {
					x = v
				}
			}
		}
		return x
	case m.Differs():
		means := make([]float64, len(values))
		for i, g := range values {
			means[i] = mean(g)
		}
		return mean(means)
	}
	medians := make([]float64, len(values))
	for i, g := range values {
		medians[i] = Median(g)
	}
	return Median(medians)
}

// withoutCut drops empty generations, and a final one with fewer than half the blocks of the one before, if 5 remain:
// its median would be as noisy as it is short, and count as much as the others. The rule looks at counts only, never at
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
