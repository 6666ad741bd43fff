package study

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// TrialPlan says which lengths to compare, and for which loads.
type TrialPlan struct {
	Loads   []string
	Pairs   []int
	Lengths []time.Duration // the last is the reference
	Time    time.Duration   // of measuring for each length, over all rounds
	Rounds  int             // how often all lengths are visited, each time in random order
}

// DefaultTrialPlan is the plan behind docs/method.md.
func DefaultTrialPlan() TrialPlan {
	ms := func(n ...int) []time.Duration {
		d := make([]time.Duration, len(n))
		for i, x := range n {
			d[i] = time.Duration(x) * time.Millisecond
		}
		return d
	}
	return TrialPlan{
		Loads: []string{
			"ping", "udp-rr(mode=wait)", "udp-rr(mode=spin)", "udp-rate", "udp-rate(mode=batched)", "udp-rate(mode=segmented)",
			"udp-rate(search=no-drop)",
			"under-load", "tcp-rr(mode=wait)", "tcp-rr(mode=spin)", "tcp-crr", "tcp-stream", "kv", "kv(payload=64KiB)", "http",
			"http(connection=new)", "dns", "dns(transport=tcp)",
		},
		Pairs:   []int{1, 10},
		Lengths: ms(5, 10, 20, 50, 100, 200, 500),
		Time:    12 * time.Second,
		Rounds:  2,
	}
}

// lengthResult collects the results of the rounds of one length.
type lengthResult struct {
	length      time.Duration
	twin, other [][]float64 // log ratios, by generation and block
	dead        []float64   // s
	drain       []float64   // s
	blocks      int
}

// Trials compares trial lengths by the ratio of a different stack and of the twin, the scatter within blocks, and the
// dead time of turns.
func (o *Options) Trials(ctx context.Context, p TrialPlan) error {
	order := rand.New(rand.NewPCG(o.Seed, 0))
	for _, load := range p.Loads {
		for _, pairs := range p.Pairs {
			results, err := o.lengths(ctx, p, order, load, pairs)
			if err != nil {
				return err
			}
			if results == nil {
				continue // spinning is refused for this number of pairs
			}
			if err := o.trialTable(load, pairs, results); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *Options) lengths(ctx context.Context, p TrialPlan, order *rand.Rand, load string, pairs int) ([]lengthResult,
	error,
) {
	results := make([]lengthResult, len(p.Lengths))
	for i, length := range p.Lengths {
		results[i].length = length
	}
	l, err := experiment.ParseLoad(load)
	if err != nil {
		return nil, err
	}
	for round := range p.Rounds {
		for _, i := range order.Perm(len(p.Lengths)) {
			e := o.base(l, pairs)
			e.Factors.Parts = o.different()
			e.Design.Trial = p.Lengths[i]
			e.Design.Time = p.Time / time.Duration(p.Rounds)
			e.Design.Precision = 1e-9 // no cell leaves
			if _, err := experiment.Resolve(e, o.Parts, o.CPUs); err != nil {
				o.say("%s, %d pairs: left out: %v", load, pairs, err)
				return nil, nil
			}
			out, err := o.run(ctx, e)
			if err != nil {
				return nil, err
			}
			o.say("%s, %d pairs, round %d: %v done", load, pairs, round+1, p.Lengths[i])
			results[i].add(out.Run, out.Log)
		}
	}
	return results, nil
}

// add adds one run.
func (r *lengthResult) add(run measure.Run, log measure.Log) {
	baseline := map[int]float64{}
	for _, t := range log.Trials {
		if t.Failed == "" && t.Cell == run.Cells[0].ID {
			baseline[t.Block] = t.Metrics[run.Cells[0].Primary]
		}
	}
	r.blocks += len(log.Blocks)
	twin, other := map[int][]float64{}, map[int][]float64{}
	for _, t := range log.Trials {
		if t.Failed != "" {
			continue
		}
		r.dead = append(r.dead, t.Metrics["dead_time"])
		r.drain = append(r.drain, t.Metrics["drain_time"])
		i := slices.IndexFunc(run.Cells, func(c measure.Cell) bool { return c.ID == t.Cell })
		v, b := t.Metrics[run.Cells[0].Primary], baseline[t.Block]
		if v <= 0 || b <= 0 {
			continue // too short for a median
		}
		switch {
		case run.Cells[i].Twin:
			twin[t.Generation] = append(twin[t.Generation], measure.LogRatio(v, b))
		case run.Cells[i].Baseline != "":
			other[t.Generation] = append(other[t.Generation], measure.LogRatio(v, b))
		}
	}
	r.twin = append(r.twin, inOrder(twin)...)
	r.other = append(r.other, inOrder(other)...)
}

// inOrder returns the values of each generation, in the order of the generations.
func inOrder(of map[int][]float64) [][]float64 {
	var list [][]float64
	for _, g := range slices.Sorted(maps.Keys(of)) {
		list = append(list, of[g])
	}
	return list
}

func (o *Options) trialTable(load string, pairs int, results []lengthResult) error {
	fmt.Fprintf(o.Out, "\n### %s, %d pairs, same host\n\n", load, pairs)
	fmt.Fprintf(o.Out, "| trial | blocks | %s : baseline | against %v | twin | twin, sd(log) in a block | dead time, "+
		"median | share | drain, median |\n", Different, results[len(results)-1].length)
	fmt.Fprintln(o.Out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	reference, refErr := measure.EstimateRatio(results[len(results)-1].other)
	for _, r := range results {
		other, err1 := measure.EstimateRatio(r.other)
		twin, err2 := measure.EstimateRatio(r.twin)
		if cmp.Or(err1, err2, refErr) != nil {
			fmt.Fprintf(o.Out, "| %v | %d | – | – | – | – | – | – | – |\n", r.length, r.blocks)
			continue
		}
		// The two estimates are independent: their standard errors add as squares. A drift beyond two standard errors
		// is marked.
		drift := other.Log - reference.Log
		se := math.Hypot(other.StdErr, reference.StdErr)
		mark := ""
		if r.length != results[len(results)-1].length && math.Abs(drift) > 2*se {
			mark = " !"
		}
		dead := measure.Median(r.dead)
		fmt.Fprintf(o.Out, "| %v | %d | %.3f ± %.1f %% | %s ± %.1f %%%s | %.3f ± %.1f %% | %.3f | %.0f µs | %.2f %% | %.0f "+
			"µs |\n",
			r.length, r.blocks, other.Ratio, 100*other.HalfWidth(), percent(drift), 200*se, mark, twin.Ratio,
			100*twin.HalfWidth(),
			spread(r.twin), 1e6*dead, 100*dead/r.length.Seconds(), 1e6*measure.Median(r.drain))
	}
	return nil
}

// spread returns the standard deviation over all blocks, each relative to its generation's median.
func spread(gens [][]float64) float64 {
	var sum float64
	n := 0
	for _, g := range gens {
		m := measure.Median(g)
		for _, x := range g {
			sum += (x - m) * (x - m)
			n++
		}
	}
	if n < 2 {
		return math.NaN()
	}
	return math.Sqrt(sum / float64(n-1))
}
