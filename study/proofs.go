package study

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/stack"
)

// Proofs shows whether proofs move figures. In each run the baseline is proved and watched as in any run, and its twin,
// in the same blocks, is not: no packet of a proof crosses it, nobody listens to its namespaces, and no audit looks at
// them. It returns an error if the number of intervals that hold 1 is not compatible with 95 %.
func (o *Options) Proofs(ctx context.Context, runs int, limit time.Duration) error {
	var proved stack.Stack
	for _, part := range [][2]string{{"network", Different}, {"filter", "nftables"}} {
		c, err := o.Parts.Kinds.Choose(part[0], part[1], nil)
		if err != nil {
			return err
		}
		proved = append(proved, c)
	}
	ratios := map[string][]float64{} // logarithms, by workload
	held, all := 0, 0
	for run := 1; run <= runs; run++ {
		e := o.byTime(limit)
		e.Baseline.Parts = proved
		out, err := o.run(ctx, e, func(c *control.Options) { c.Unproven = c.Resolved.Twin })
		if err != nil {
			return err
		}
		for _, r := range primary(out.Analysis, isTwin) {
			if !r.HasRatio {
				continue
			}
			words := []string{r.Cell.Workload}
			for _, param := range []string{"mode", "payload"} {
				if v := r.Cell.Params[param]; v != "" {
					words = append(words, param+"="+v)
				}
			}
			key := strings.Join(append(words, r.Cell.Placement), " ")
			ratios[key] = append(ratios[key], math.Log(r.Estimate.Ratio))
			all++
			if r.Estimate.Lo <= 1 && 1 <= r.Estimate.Hi {
				held++
			}
		}
		o.say("run %d of %d: %d of %d intervals hold 1", run, runs, held, all)
	}
	fmt.Fprint(o.Out, "\n| workload | runs | twin without proofs, over the baseline with them | 95 % interval |\n"+
		"| --- | --- | --- | --- |\n")
	for _, key := range slices.Sorted(maps.Keys(ratios)) {
		mean, half := pooled(ratios[key])
		fmt.Fprintf(o.Out, "| %s | %d | %s | %s to %s |\n", key, len(ratios[key]), percent(math.Expm1(mean)),
			percent(math.Expm1(mean-half)), percent(math.Expm1(mean+half)))
	}
	lo, hi := measure.ClopperPearson(held, all, 1-measure.Level)
	fmt.Fprintf(o.Out, "\nIntervals of single runs that hold 1: %d of %d (95 %% interval %.1f to %.1f %%).\n", held, all,
		100*lo, 100*hi)
	return covered(held, all)
}

// pooled returns the mean of runs, and half of its 95 % interval (Student's t).
func pooled(x []float64) (mean, half float64) {
	if len(x) < 2 {
		return stat.Mean(x, nil), math.Inf(1)
	}
	mean, sd := stat.MeanStdDev(x, nil)
	t := distuv.StudentsT{Sigma: 1, Nu: float64(len(x) - 1)}
	return mean, t.Quantile(1-measure.Level/2) * sd / math.Sqrt(float64(len(x)))
}
