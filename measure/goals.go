package measure

import "math"

// Goal is a question that a run is to answer: how a cell compares with its baseline, or whether a part of a claim of a
// suite holds.
type Goal struct {
	Name    string   // unique in a run
	Cells   []string // ids of the cells that answer it
	Decided bool     // at the level of the look, see [LookLevel]
	Precise bool     // the interval is as narrow as the run was asked for
	// ToDecide and ToPrecise are how many times as many generations would make it decided or precise, if its estimate
	// and the noise stayed as they are. They are 1 if it is, +Inf if no number would, and NaN if there is no estimate.
	ToDecide, ToPrecise float64
}

// LookLevel returns the error rate at which a goal is decided at a look (from 1):
//
//	α(k) = 0.01 / (k·(k+1))
//
// A run looks until something is decided, so that the same level at every look would decide too much. These levels add
// up to 0.01 over any number of looks. If each look keeps its level, the probability that any look decides wrongly is
// at most 0.01, by Bonferroni's inequality. This holds although the measurements between looks depend on what the looks
// saw. Such levels are an α-spending function (K. K. G. Lan and D. L. DeMets, Discrete sequential boundaries for
// clinical trials, Biometrika 70 (1983) 659). They hold for a family of Holm's procedure: a metric, or the claims of a
// suite.
func LookLevel(look int) float64 {
	const all = 0.01
	return all / float64(look*(look+1))
}

// Goals returns a goal for each cell that governs when the run ends, under the cell's id. It is decided if the verdict
// by the rules of [Comparison.Decide] is a difference, or no difference, with the cell's intervals drawn at the level
// of the look. An interval without a width decides nothing at the first look. A cell without a result is neither
// decided nor precise.
func (a Analysis) Goals(look int) []Goal {
	design := a.from.run.Design
	judged := a.judgedAt(LookLevel(look))
	var list []Goal
	for _, r := range a.Rows {
		if r.Metric != r.Cell.Primary || !r.Cell.Governs() {
			continue
		}
		g := Goal{
			Name: r.Cell.ID, Cells: []string{r.Cell.ID}, Precise: r.Precise(design.Precision), ToDecide: math.NaN(),
			ToPrecise: r.Effect.toPrecise(design.Precision),
		}
		if j := judged[r.Cell.ID]; j != nil && (look > 1 || j.Estimate.StdErr+j.Difference.StdErr > 0) {
			g.Decided, g.ToDecide = j.Verdict.decided(), j.Longer(design.Equal())
		}
		list = append(list, g)
	}
	return list
}

// judgedAt returns the rows of the cells' primary metrics with their verdicts at an error rate, by cell.
func (a Analysis) judgedAt(alpha float64) map[string]*Row {
	families, primary := map[string][]*Row{}, map[string]*Row{}
	for _, r := range a.Rows {
		if !r.Verdict.decided() && r.Verdict != NotPrecise && r.Verdict != TooNoisy {
			continue
		}
		if !r.HasRatio && !r.HasDifference {
			continue
		}
		r.Effect = r.Effect.drawnAt(alpha)
		families[r.Metric] = append(families[r.Metric], &r)
		if r.Metric == r.Cell.Primary {
			primary[r.Cell.ID] = &r
		}
	}
	for _, rows := range families {
		judge(rows, a.from.run.Design.Equal(), alpha)
	}
	return primary
}

func (v Verdict) decided() bool { return Differs(v) || v == NoDifference }

// toPrecise returns how many times as many generations would give the precision. It is NaN if there is no estimate.
func (e Effect) toPrecise(precision float64) float64 {
	switch {
	case e.HasRatio:
		return e.Estimate.ToPrecise(precision)
	case e.HasDifference:
		return toPrecise(e.Difference.HalfWidth(), precision)
	}
	return math.NaN()
}

// ToPrecise returns how many times as many generations would make the half-width of the interval at most precision, if
// the noise stayed as it is. It is 1 if it is, and NaN if there is no interval.
func (e Estimate) ToPrecise(precision float64) float64 { return toPrecise(e.HalfWidth(), precision) }

func toPrecise(half, precision float64) float64 { return max(1, half*half/(precision*precision)) }
