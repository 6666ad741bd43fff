package study

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// Twins counts how often the interval of a twin's ratio holds 1, over as many runs as this number of comparisons takes.
// Two kinds of run alternate: runs that end when their time is up, with every discipline, and runs that end when the
// evaluated cells are precise, so that their data decide the end. It returns an error if the count is not compatible
// with 95 %.
func (o *Options) Twins(ctx context.Context, comparisons int, limit time.Duration) error {
	type count struct{ held, all int }
	by := map[string]count{}
	var order []string
	var total count
	early := 0
	for run := 0; total.all < comparisons; run++ {
		e, ends := o.byTime(limit), "time"
		if run%2 == 1 {
			e, ends = o.byPrecision(2*limit), "precision"
		}
		out, err := o.run(ctx, e)
		if err != nil {
			return err
		}
		if ends == "precision" && out.End.Why == measure.EndPrecise {
			early++
		}
		for _, r := range primary(out.Analysis, isTwin) {
			if !r.HasRatio {
				continue
			}
			key := fmt.Sprintf("%s | %s %s %s", ends, r.Cell.Workload, r.Cell.Params["mode"], r.Cell.Placement)
			n, seen := by[key]
			if !seen {
				order = append(order, key)
			}
			n.all++
			total.all++
			if r.Estimate.Lo <= 1 && 1 <= r.Estimate.Hi {
				n.held++
				total.held++
			}
			by[key] = n
		}
		o.say("run %d: %d of %d twin intervals hold 1", run+1, total.held, total.all)
	}
	lo, hi := measure.ClopperPearson(total.held, total.all, 0.95)
	fmt.Fprintf(o.Out, "\n| runs end by | twins of | intervals | hold 1 |\n| --- | --- | --- | --- |\n")
	slices.Sort(order)
	for _, key := range order {
		fmt.Fprintf(o.Out, "| %s | %d | %d |\n", key, by[key].all, by[key].held)
	}
	fmt.Fprintf(o.Out, "| all | | %d | %d = %.1f %% (95 %% interval %.1f to %.1f %%) |\n\nRuns that ended because "+
		"everything was precise enough: %d.\n",
		total.all, total.held, 100*float64(total.held)/float64(total.all), 100*lo, 100*hi, early)
	return covered(total.held, total.all)
}

// covered returns an error if the number of intervals that hold 1 is too small for intervals that hold the truth in 95
// % of cases.
func covered(held, all int) error {
	if _, hi := measure.ClopperPearson(held, all, 0.95); hi < 0.95 {
		return fmt.Errorf("coverage %d of %d is not compatible with 95 %%: the upper end of its interval is %.3f", held, all,
			hi)
	}
	return nil
}

// byTime returns a run of every discipline that ends when its time is up.
func (o *Options) byTime(limit time.Duration) experiment.Experiment {
	same := experiment.SameHost
	e := o.base(udpRR("spin", same), 1)
	e.Workloads = append(e.Workloads, udpRR("wait"), sized(udpRR("wait", same), 1024),
		experiment.Load{Choice: experiment.Choice{Name: "tcp-stream"}, Placements: []experiment.Placement{same}})
	e.Design.Time, e.Design.Trial, e.Design.Precision = limit, 20*time.Millisecond, 1e-9
	return e
}

// byPrecision returns a run that ends when the different network is known precisely, which is the condition of the
// stopping rule. Its twins are measured for as long as that takes.
func (o *Options) byPrecision(limit time.Duration) experiment.Experiment {
	e := o.base(udpRR("spin"), 1)
	e.Workloads = nil
	for _, payload := range []int{64, 1024} {
		e.Workloads = append(e.Workloads, sized(udpRR("spin"), payload))
	}
	e.Factors.Parts = o.different()
	e.Design.Time, e.Design.Trial, e.Design.Precision = limit, 5*time.Millisecond, 0.03
	return e
}

// Effect plants a delay into the twin's sinks: a share of the baseline's median round trip. It checks in each of the
// runs that the delay is found with its sign and that its true size lies in its interval. All intervals together miss
// with at most the error rate alpha: each has Bonferroni's level.
func (o *Options) Effect(ctx context.Context, runs int, share, alpha float64, limit time.Duration) error {
	found, held, plain := 0, 0, 0
	fmt.Fprintf(o.Out, "\n| run | planted, measured at the sink | true ratio | found | its interval (error rate %g for "+
		"all %d runs together) | sign | size |\n| --- | --- | --- | --- | --- | --- | --- |\n", alpha, runs)
	for run := 1; run <= runs; run++ {
		e := o.base(udpRR("spin"), 1)
		e.Design.Time = limit
		pilot := e
		pilot.Design.Time = limit / 5
		out, err := o.run(ctx, pilot)
		if err != nil {
			return err
		}
		isBaseline := func(c *measure.Cell) bool { return c.Baseline == "" }
		median := value(out.Analysis, out.Run.Cells[0].Primary, isBaseline)
		e.Plants = []experiment.Plant{{Delay: time.Duration(share * median * 1e9)}}
		if out, err = o.run(ctx, e); err != nil {
			return err
		}
		rows := primary(out.Analysis, isTwin)
		if len(rows) != 1 || !rows[0].HasRatio {
			return fmt.Errorf("run %d has no ratio for the planted effect", run)
		}
		est := rows[0].Estimate
		planted := value(out.Analysis, "planted", isTwin)
		// The baseline's value is the mean of the baseline and its twin, which has the delay.
		base := value(out.Analysis, rows[0].Metric, isBaseline) / math.Sqrt(rows[0].Estimate.Ratio)
		truth := 1 + planted/base
		wide := est.Interval(alpha / float64(runs))
		lo, hi := wide.Lo, wide.Hi
		sign, size := est.Lo > 1, lo <= truth && truth <= hi
		if sign {
			found++
		}
		if size {
			held++
		}
		if est.Lo <= truth && truth <= est.Hi {
			plain++
		}
		fmt.Fprintf(o.Out, "| %d | %.0f ns of %.0f ns | %.4f | %.4f | %.4f to %.4f | %s | %s |\n", run, 1e9*planted,
			1e9*base, truth, est.Ratio, lo, hi, yes(sign), yes(size))
		o.say("run %d: planted %.4f, found %.4f", run, truth, est.Ratio)
	}
	fmt.Fprintf(o.Out, "\nFound with its sign in %d of %d runs, its size within the interval in %d (within the plain 95 "+
		"%% interval in %d).\n", found, runs, held, plain)
	if found < runs || held < runs {
		return fmt.Errorf("the planted effect was found in %d and its size held in %d of %d runs", found, held, runs)
	}
	return nil
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
