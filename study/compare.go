package study

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// Compare measures the same experiment in this many pairs of runs, one run after another. It counts the pairs in which
// a comparison wrongly finds a difference in a primary metric. It returns an error if the count is not compatible with
// 5 %. The pairs are the first and the second run, the third and the fourth, and so on, which are independent. It also
// prints the results for all pairs of runs.
func (o *Options) Compare(ctx context.Context, e experiment.Experiment, pairs int) error {
	if pairs < 1 {
		return fmt.Errorf("%d pairs of runs (valid: at least 1)", pairs)
	}
	var runs []measure.Side
	var differ pairCount
	fmt.Fprintf(o.Out, "\n| runs | comparisons | no difference | not precise enough | different |\n| --- | --- | --- | "+
		"--- | --- |\n")
	for len(runs) < 2*pairs {
		out, err := o.run(ctx, e)
		if err != nil {
			return err
		}
		runs = append(runs, measure.Side{Run: out.Run, Analysis: out.Analysis})
		n := len(runs)
		o.say("run %d of %d: %d blocks in %d generations", n, 2*pairs, out.Analysis.Blocks, out.Analysis.Generations)
		if n%2 == 1 {
			continue
		}
		found, err := compareEqual(runs[n-2], runs[n-1])
		if err != nil {
			return err
		}
		differ.add(found)
		fmt.Fprintf(o.Out, "| %d and %d | %d | %d | %d | %s |\n", n-1, n, found.all, found.verdicts[measure.NoDifference],
			found.verdicts[measure.NotPrecise], strings.Join(found.different, "; "))
	}
	var all pairCount
	for i := range runs {
		for j := range i {
			found, err := compareEqual(runs[j], runs[i])
			if err != nil {
				return err
			}
			all.add(found)
		}
	}
	lo, hi := measure.ClopperPearson(differ.different, differ.all, 0.95)
	fmt.Fprintf(o.Out, "\nPairs of runs that show a difference: %d of %d (95 %% interval %.1f to %.1f %%). Of all pairs "+
		"that can be made of the runs, which are not independent: %d of %d = %.1f %%.\n",
		differ.different, differ.all, 100*lo, 100*hi, all.different, all.all, 100*float64(all.different)/float64(all.all))
	if lo > measure.Level {
		return fmt.Errorf("%d of %d pairs of equal runs show a difference, which is not compatible with 5 %%: the lower "+
			"end of its interval is %.3f", differ.different, differ.all, lo)
	}
	return nil
}

// pairCount counts pairs of runs, and those with any difference.
type pairCount struct{ different, all int }

func (n *pairCount) add(e equality) {
	n.all++
	if len(e.different) > 0 {
		n.different++
	}
}

// equality is the result of comparing two equal runs.
type equality struct {
	all       int
	verdicts  map[measure.Verdict]int
	different []string // in words
}

func compareEqual(older, newer measure.Side) (equality, error) {
	found := equality{verdicts: map[measure.Verdict]int{}}
	if list := measure.Obstacles(older, newer); len(list) > 0 {
		o := list[0]
		return found, fmt.Errorf("two runs of one machine cannot be compared: %s: %q, then %q", o.What, o.Old, o.New)
	}
	for _, c := range measure.Compare(older, newer) {
		if c.Shift != "" {
			e := c.Own.Estimate
			found.different = append(found.different, fmt.Sprintf("%s itself %s %.4f (%.4f to %.4f)", c.Cell.ID, c.Shift,
				e.Ratio, c.ShiftLo, c.ShiftHi))
		}
		switch {
		case !c.Primary || c.Verdict == measure.IsBaseline || c.Verdict == measure.IsTwin:
			continue
		case c.Verdict == measure.HasFailed:
			return found, errors.New("cell " + c.Cell.ID + " failed")
		}
		found.all++
		found.verdicts[c.Verdict]++
		if c.Verdict == measure.NoDifference || c.Verdict == measure.NotPrecise {
			continue
		}
		how := fmt.Sprintf("%.4f (%.4f to %.4f)", c.Estimate.Ratio, c.Estimate.Lo, c.Estimate.Hi)
		if c.HasDifference {
			how = fmt.Sprintf("%+.4g (%+.4g to %+.4g)", c.Difference.Points, c.Difference.Lo, c.Difference.Hi)
		}
		found.different = append(found.different, fmt.Sprintf("%s %s %s", c.Cell.ID, c.Verdict, how))
	}
	return found, nil
}
