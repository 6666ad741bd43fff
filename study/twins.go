package study

import (
	"context"
	"fmt"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// Twins counts how often the interval of a twin's ratio holds 1, over as many runs as it takes for so many comparisons, with
// stopping switched on. It returns an error that says so where the count is not compatible with 95 %.
func (o *Options) Twins(ctx context.Context, comparisons int, limit time.Duration) error {
	covered, total, left := 0, 0, 0
	var widths []float64
	by := map[string][2]int{}
	var order []string
	for run := 1; total < comparisons; run++ {
		e := base("udp-rr(mode=spin)", experiment.SameHost, 1)
		e.Workloads = append(e.Workloads,
			experiment.Load{Workload: "udp-rr(mode=wait)", Placements: experiment.Placements()},
			experiment.Load{Workload: "udp-rr(mode=wait,payload=1024)", Placements: []experiment.Placement{experiment.SameHost}},
			experiment.Load{Workload: "tcp-stream", Placements: []experiment.Placement{experiment.SameHost}},
		)
		// The different network is what stopping looks at; twins stay to the end, but the end comes when it has left.
		e.Networks = []string{e.Baseline, Different}
		e.Design.Time = limit
		e.Design.Trial = 10 * time.Millisecond
		e.Design.Precision = 0.1
		out, err := o.run(ctx, e)
		if err != nil {
			return err
		}
		if limit.Seconds() > out.Analysis.Measured*1.2 {
			left++
		}
		for _, r := range primary(out.Analysis, isTwin) {
			if !r.HasRatio {
				continue
			}
			key := r.Cell.Workload + " " + r.Cell.Params["mode"] + " " + r.Cell.Placement
			n, seen := by[key]
			if !seen {
				order = append(order, key)
			}
			n[1]++
			total++
			widths = append(widths, r.Estimate.HalfWidth())
			if r.Estimate.Lo <= 1 && 1 <= r.Estimate.Hi {
				covered++
				n[0]++
			}
			by[key] = n
		}
		o.say("run %d: %d of %d twin intervals hold 1", run, covered, total)
	}
	lo, hi := measure.ClopperPearson(covered, total, 0.95)
	fmt.Fprintf(o.Out, "\n| twins of | intervals | hold 1 |\n| --- | --- | --- |\n")
	for _, key := range order {
		fmt.Fprintf(o.Out, "| %s | %d | %d |\n", key, by[key][1], by[key][0])
	}
	fmt.Fprintf(o.Out, "| all | %d | %d = %.1f %% (95 %% interval %.1f to %.1f %%) |\n\nHalf-width, median: %.1f %%. Runs that ended before their time, because all was precise: %d.\n",
		total, covered, 100*float64(covered)/float64(total), 100*lo, 100*hi, 100*measure.Median(widths), left)
	if hi < 0.95 {
		return fmt.Errorf("coverage %d of %d is not compatible with 95 %%: the upper end of its interval is %.3f", covered, total, hi)
	}
	return nil
}

// Effect plants a delay of so large a share of the baseline's median round trip into the twin's sinks, and checks in each of
// so many runs that it is found with its sign and that its true size lies in its interval. The intervals are drawn so that all
// of them together miss with no more than the error rate alpha: Bonferroni's level for each.
func (o *Options) Effect(ctx context.Context, runs int, share, alpha float64, limit time.Duration) error {
	const load = "udp-rr(mode=spin)"
	found, held, plain := 0, 0, 0
	fmt.Fprintf(o.Out, "\n| run | planted, measured at the sink | true ratio | found | its interval (error rate %g for all %d runs together) | sign | size |\n| --- | --- | --- | --- | --- | --- | --- |\n", alpha, runs)
	for run := 1; run <= runs; run++ {
		e := base(load, experiment.SameHost, 1)
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
		truth := 1 + planted/value(out.Analysis, rows[0].Metric, isBaseline)
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
			1e9*value(out.Analysis, rows[0].Metric, isBaseline), truth, est.Ratio, lo, hi, yes(sign), yes(size))
		o.say("run %d: planted %.4f, found %.4f", run, truth, est.Ratio)
	}
	fmt.Fprintf(o.Out, "\nFound with its sign in %d of %d runs, its size within the interval in %d (within the plain 95 %% interval in %d).\n", found, runs, held, plain)
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
