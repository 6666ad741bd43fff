package study

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// A lever is a way in which nettoll gets more precision from the same time, and how to do without it: in measuring, or
// in computing ratios from the same records.
type lever struct {
	name    string
	without func(*experiment.Experiment)
	reduce  reduction
}

// reduction describes a way to compute ratios that differs from nettoll's.
type reduction struct {
	oneBaseline bool // over the baseline alone instead of over it and its twin
	median      bool // of a generation's blocks
}

// levers lists all levers. The lengths are those of trials at commit 2937491.
func levers() []lever {
	asleep := func(e *experiment.Experiment) { e.Factors.Idles = []string{experiment.IdleDeep} }
	long := func(e *experiment.Experiment) {
		for i, l := range e.Workloads {
			switch {
			case l.Name == "tcp-stream":
				e.Workloads[i].Trial = 200 * time.Millisecond
			case l.Params["mode"] == "spin":
				e.Workloads[i].Trial = 40 * time.Millisecond
			default:
				e.Workloads[i].Trial = 100 * time.Millisecond
			}
		}
	}
	scattered := func(e *experiment.Experiment) { e.Design.Scattered = true }
	kept := func(e *experiment.Experiment) { e.Design.Spoiled = 0 }
	return []lever{
		{name: "all", without: func(*experiment.Experiment) {}},
		{name: "all, but CPUs may sleep", without: asleep},
		{name: "all, but long trials", without: long},
		{name: "all, but cells in any order", without: scattered},
		{name: "all, but spoiled blocks are kept", without: kept},
		{name: "all, but one baseline", reduce: reduction{oneBaseline: true}},
		{name: "all, but medians of blocks", reduce: reduction{median: true}},
		{
			name: "none", without: func(e *experiment.Experiment) { asleep(e); long(e); scattered(e); kept(e) },
			reduce: reduction{oneBaseline: true, median: true},
		},
	}
}

// efficient holds what a lever's runs found about a group of cells.
type efficient struct {
	halfWidths, floors []float64 // logarithms: of ratios to the baseline, one per stack and run; of twins, one per run
}

// Efficiency measures an experiment with all levers, without each one, and without any, each for the same time and in a
// new random order in each round. It prints the half-widths of ratios and the floors: for each group of cells, the
// geometric mean over stacks and rounds.
func (o *Options) Efficiency(ctx context.Context, e experiment.Experiment, rounds int) error {
	if rounds < 1 {
		return fmt.Errorf("%d rounds (valid: at least 1)", rounds)
	}
	e.Design.Precision = 1e-9 // no cell leaves
	all := levers()
	found := make([]map[string]*efficient, len(all))
	for i := range found {
		found[i] = map[string]*efficient{}
	}
	var groups []string
	order := rand.New(rand.NewPCG(o.Seed, 0))
	for round := range rounds {
		for _, i := range order.Perm(len(all)) {
			if all[i].without == nil {
				continue // computed from the records of the first
			}
			one := e
			one.Workloads = slices.Clone(e.Workloads)
			all[i].without(&one)
			out, err := o.run(ctx, one)
			if err != nil {
				return err
			}
			o.say("round %d of %d, %s: %d blocks in %d generations", round+1, rounds, all[i].name, out.Analysis.Blocks,
				out.Analysis.Generations)
			for j, l := range all {
				if j == i || i == 0 && l.without == nil {
					groups = l.reduce.add(out, found[j], groups)
				}
			}
		}
	}
	fmt.Fprintf(o.Out, "\n| group | levers | half-width of changes | floor | of the half-width without any |\n| --- "+
		"| --- | --- | --- | --- |\n")
	for _, group := range groups {
		none := found[len(all)-1][group]
		for i, l := range all {
			x := found[i][group]
			if x == nil || len(x.halfWidths) == 0 {
				fmt.Fprintf(o.Out, "| %s | %s | – | – | – |\n", group, l.name)
				continue
			}
			share := "–"
			if none != nil && len(none.halfWidths) > 0 {
				share = fmt.Sprintf("%.2f", geometric(x.halfWidths)/geometric(none.halfWidths))
			}
			fmt.Fprintf(o.Out, "| %s | %s | %.1f %% | %.1f %% | %s |\n", group, l.name, 100*math.Expm1(geometric(x.halfWidths)),
				100*math.Expm1(geometric(x.floors)), share)
		}
	}
	return nil
}

func geometric(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(x)))
}

// add adds what a run found about each group, and returns all groups, including new ones.
func (r reduction) add(out *control.Outcome, found map[string]*efficient, groups []string) []string {
	values := map[string]map[int]float64{} // by cell and block: logarithms of the primary metric
	generation := map[int]int{}            // of a block
	primary := map[string]string{}
	for _, c := range out.Run.Cells {
		primary[c.ID], values[c.ID] = c.Primary, map[int]float64{}
	}
	for i := range out.Log.Trials {
		t := &out.Log.Trials[i]
		if _, _, aside := out.Analysis.SpoiledTrial(t); aside || t.Failed != "" || t.Metrics[primary[t.Cell]] <= 0 {
			continue
		}
		values[t.Cell][t.Block], generation[t.Block] = math.Log(t.Metrics[primary[t.Cell]]), t.Generation
	}
	twins := map[string]string{} // by baseline
	for _, c := range out.Run.Cells {
		if c.Twin {
			twins[c.Baseline] = c.ID
		}
	}
	for _, c := range out.Run.Cells {
		if c.Baseline == "" {
			continue
		}
		base, twin := values[c.Baseline], values[twins[c.Baseline]]
		gens := map[int][]float64{}
		for block, v := range values[c.ID] {
			b, ok := base[block]
			if !ok {
				continue
			}
			if other, ok := twin[block]; ok && !c.Twin && !r.oneBaseline {
				b = (b + other) / 2
			}
			gens[generation[block]] = append(gens[generation[block]], v-b)
		}
		var list [][]float64
		for _, g := range slices.Sorted(maps.Keys(gens)) {
			of := gens[g]
			if r.median {
				of = []float64{measure.Median(of)}
			}
			list = append(list, of)
		}
		est, err := measure.EstimateRatio(list)
		if err != nil {
			continue
		}
		name := strings.Join(strings.Fields(c.Workload+" "+c.Params["mode"]), " ") + ", " + c.Placement
		if found[name] == nil {
			found[name] = &efficient{}
		}
		if !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
		if c.Twin {
			found[name].floors = append(found[name].floors, measure.Floor(est))
		} else {
			found[name].halfWidths = append(found[name].halfWidths, (math.Log(est.Hi)-math.Log(est.Lo))/2)
		}
	}
	return groups
}
