package measure

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Analysis is what a run says: the view every report is made from, and what the controller looks at.
type Analysis struct {
	Rows        []Row
	Floors      []GroupFloor
	Probes      []ProbeCost
	Failed      []FailedCell
	Warnings    []Warning // of the log, of its trials (each text once a cell, with a count) and of the analysis
	Proofs      []Proof
	Facts       []Fact
	Labs        []LabFigure // what building and changing labs cost
	Rebuilt     []LabFigure // the same of labs that were built once more, because a program had died
	Blocks      int         // distinct blocks seen
	Generations int         // distinct generations seen
	Trials      int         // trials seen, failed ones too
	// s, sum of the trials' windows; of the members of a mix, which have theirs at the same time, that of one
	Measured float64
	Standing Standing

	tallies map[string]map[string][]tally // histograms by cell and the prefix of their metrics
}

// Standing is whether a run ended, and what checking its records has found.
type Standing struct {
	Version    int      // of the records; 0: there are none, or they were not read from a file
	End        *End     // nil: it did not end, or its records have version 1, which does not say so
	Complete   int      // generations measured to their end
	Resumes    []Resume // every time it was resumed
	Changed    []string // as in Log
	RunChanged bool     // run.json is not what it was when the run began
}

// Old says whether the records are of a version that has no checksums and does not say whether the run ended. The
// version of run.json is given.
func (s Standing) Old(run int) bool { return max(run, s.Version) < 2 }

// Row is one cell in one metric.
type Row struct {
	Cell   *Cell // into Run.Cells
	Metric string
	Unit   string
	About  Metric // what Metric means
	// Value is the median over generations of the medians of their trials, in Unit; means for a share or a count; the
	// largest of all for a maximum. NaN when the cell failed.
	Value float64
	Effect
	// AdjLo and AdjHi are the interval at the level Holm's procedure gives the row: ratios, or Unit if HasDifference. The
	// family is all cells of the run but baselines and twins, in this metric. Twins have their plain 95 % interval.
	AdjLo, AdjHi float64
	Verdict      Verdict
	// Floor is that of the row's group and metric: a natural logarithm of a ratio, or Unit if the metric is compared by
	// difference; NaN if unknown.
	Floor float64
	// blocks (or, of a quantile, groups of blocks) behind the ratio or difference; of a baseline or without ratio, behind
	// the value
	Blocks      int
	Generations int
	// Limit is what kept the figure from being higher ("sender", "path", "receiver") by LimitShare of the cell's trials,
	// more than say anything else; "" in rows of other metrics than the primary one, and where no trial says anything.
	Limit      string
	LimitShare float64
}

// GroupFloor is the floor of a group of cells in one metric.
type GroupFloor struct {
	Group, Metric string
	Twin          string  // id of the twin's cell
	Floor         float64 // ln of a ratio, or the metric's unit if Difference
	Difference    bool
}

// FailedCell is a cell without a single usable trial.
type FailedCell struct {
	Cell   string
	Reason string // the most frequent one
	Trials int    // failed trials; 0 when the cell was never visited
}

// Analyze reduces the records of a run. It works on what is there: an interrupted run, failed trials, cells that left.
// A block in which a cell or its baseline has no usable trial is not used for that cell's ratios. A final generation
// that was cut short (fewer than half the blocks of the one before) is left out of estimates when at least 5 others
// remain.
func Analyze(run Run, log *Log) Analysis {
	a := &analyzer{run: run, known: run.Vocabulary(), log: log, cells: make([]cellData, len(run.Cells))}
	a.index()
	each(len(a.cells), func(i int) { a.cells[i].transpose() })
	a.histograms()
	// what each cell adds: they do not depend on each other, and 100,000 trials are work for every CPU
	own := make([]analyzer, len(a.cells))
	each(len(a.cells), func(i int) {
		own[i] = analyzer{run: run, known: a.known, cells: a.cells, byID: a.byID}
		own[i].rows(i)
	})
	for i := range own {
		a.out.Rows = append(a.out.Rows, own[i].out.Rows...)
		a.out.Warnings = append(a.out.Warnings, own[i].out.Warnings...)
	}
	a.floors()
	a.adjust()
	a.limits()
	a.probes()
	return a.out
}

// each calls do for 0 … n−1, on all CPUs at once.
func each(n int, do func(i int)) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	running.Wait()
}

// Distribution merges the histograms of a cell in a metric ("latency", "oneway_latency"); ok is false where there are
// none.
func (a Analysis) Distribution(cell, metric string) (d Distribution, ok bool) {
	list := a.tallies[cell][metric+"_"]
	return merge(list), len(list) > 0
}

type analyzer struct {
	run   Run
	known Vocabulary // of the run
	log   *Log
	cells []cellData
	byID  map[string]int
	out   Analysis
}

type cellData struct {
	trials  []*Trial // usable ones, by generation and block
	columns map[string]*column
	tallies map[string][]tally // histograms by the prefix of their metrics: "latency_"
}

// column is a metric of a cell's trials: looked up once instead of in each trial's map for each metric.
type column struct {
	values []float64 // of the usable trials, in their order
	has    []bool
	n      int // trials that have it
}

// transpose makes the columns.
func (c *cellData) transpose() {
	c.columns = map[string]*column{}
	for i, t := range c.trials {
		for name, x := range t.Metrics {
			m := c.columns[name]
			if m == nil {
				m = &column{values: make([]float64, len(c.trials)), has: make([]bool, len(c.trials))}
				c.columns[name] = m
			}
			m.values[i], m.has[i] = x, true
			m.n++
		}
	}
}

// count is how many trials have a metric.
func (c *cellData) count(metric string) int {
	if m := c.columns[metric]; m != nil {
		return m.n
	}
	return 0
}

func (a *analyzer) warn(cell, format string, args ...any) {
	a.out.Warnings = append(a.out.Warnings, Warning{
		Type: "warning", V: Version, Cell: cell, Text: fmt.Sprintf(format, args...),
	})
}

// index sorts the trials by cell and counts what failed.
func (a *analyzer) index() {
	a.out.Proofs, a.out.Facts = a.log.Proofs, a.log.Facts
	a.out.Standing = Standing{
		Version: a.log.Version, End: a.log.End, Complete: len(a.log.Generations), Resumes: a.log.Resumes,
		Changed: a.log.Changed, RunChanged: a.log.RunChanged,
	}
	a.out.Labs, a.out.Rebuilt = LabFigures(a.known, a.log.Labs, false), LabFigures(a.known, a.log.Labs, true)
	a.out.Warnings = slices.Clone(a.log.Warnings)
	a.byID = make(map[string]int, len(a.run.Cells))
	for i, c := range a.run.Cells {
		a.byID[c.ID] = i
		a.cells[i].tallies = map[string][]tally{}
	}
	type place struct{ generation, block int }
	blocks, generations := map[place]bool{}, map[int]bool{}
	all := make([][]*Trial, len(a.cells))
	unknown := counts{}
	type moment struct {
		place
		start float64
	}
	mixed := map[moment]bool{} // when members of mixes were measured: at the same time
	for i := range a.log.Trials {
		t := &a.log.Trials[i]
		a.out.Trials++
		c, ok := a.byID[t.Cell]
		at := moment{place{t.Generation, t.Block}, t.Start}
		if !mixed[at] {
			a.out.Measured += t.Duration
		}
		if ok && a.run.Cells[c].Mix != nil {
			mixed[at] = true
		}
		if !ok {
			unknown.add(t.Cell)
			continue
		}
		blocks[place{t.Generation, t.Block}] = true
		generations[t.Generation] = true
		all[c] = append(all[c], t)
	}
	a.out.Blocks, a.out.Generations = len(blocks), len(generations)
	for _, u := range unknown.sorted() {
		a.warn("", "%d trials of cell %q, which run.json does not name, are not used", u.n, u.text)
	}
	for i, trials := range all {
		id := a.run.Cells[i].ID
		slices.SortStableFunc(trials, func(x, y *Trial) int {
			return cmp.Or(cmp.Compare(x.Generation, y.Generation), cmp.Compare(x.Block, y.Block))
		})
		failed, doubts, n := counts{}, counts{}, 0
		usable := make([]*Trial, 0, len(trials))
		for j, t := range trials {
			if j+1 < len(trials) && trials[j+1].Generation == t.Generation && trials[j+1].Block == t.Block {
				continue // visited again in the same block (a resumed run): the last visit counts
			}
			n++
			for _, w := range t.Warnings {
				doubts.add(w)
			}
			if t.Failed != "" {
				failed.add(t.Failed)
				continue
			}
			usable = append(usable, t)
		}
		a.cells[i].trials = usable
		for _, d := range doubts.sorted() {
			a.warn(id, "%s (%d of %d trials)", d.text, d.n, n)
		}
		switch reasons := failed.sorted(); {
		case len(usable) == 0:
			f := FailedCell{Cell: id, Reason: "no trial was recorded", Trials: n}
			if len(reasons) > 0 {
				f.Reason = reasons[0].text
			}
			a.out.Failed = append(a.out.Failed, f)
		case len(reasons) > 0:
			for _, r := range reasons {
				a.warn(id, "%d of %d trials failed: %s", r.n, n, r.text)
			}
		}
	}
}

func (a *analyzer) histograms() {
	byCell := make([]map[string][]Histograms, len(a.cells))
	for _, h := range a.log.Histograms {
		i, ok := a.byID[h.Cell]
		if !ok {
			continue
		}
		if byCell[i] == nil {
			byCell[i] = map[string][]Histograms{}
		}
		prefix := cmp.Or(h.Metric, "latency") + "_"
		byCell[i][prefix] = append(byCell[i][prefix], h)
	}
	type decoded struct {
		cell   int
		prefix string
		list   []tally
		err    error
	}
	var all []decoded
	for i, m := range byCell {
		for _, prefix := range sortedKeys(m) {
			all = append(all, decoded{cell: i, prefix: prefix})
		}
	}
	each(len(all), func(i int) { all[i].list, all[i].err = decodeAll(byCell[all[i].cell][all[i].prefix]) })
	a.out.tallies = map[string]map[string][]tally{}
	for _, d := range all {
		if d.err != nil {
			a.warn(a.run.Cells[d.cell].ID, "%v; no percentile of this cell is used", d.err)
			continue
		}
		a.cells[d.cell].tallies[d.prefix] = d.list
		a.out.tallies[a.run.Cells[d.cell].ID] = a.cells[d.cell].tallies
	}
}

// metricsOf lists the metrics of a cell in the order of reports, unknown ones at the end.
func (a *analyzer) metricsOf(i int) []Metric {
	var list []Metric
	seen := map[string]bool{}
	for _, m := range a.known.list {
		_, histogram := a.cells[i].tallies[histogramPrefix(m)]
		if a.cells[i].count(m.Name) > 0 || histogram {
			list = append(list, m)
		}
		seen[m.Name] = true
	}
	for _, name := range sortedKeys(a.cells[i].columns) {
		if !seen[name] {
			m, _ := a.known.Lookup(name)
			list = append(list, m)
		}
	}
	return list
}

// histogramPrefix returns the prefix of the names of the histogram that a metric is taken from, "" of one that is taken
// from trials alone. (Means of latencies are in every trial; those of other durations, of which trials on a schedule
// have several, are not.)
func histogramPrefix(m Metric) string {
	if m.Kind == KindQuantile || m.Merged {
		return m.Name[:strings.LastIndex(m.Name, "_")+1]
	}
	return ""
}

// rows adds the rows of cell i, without verdicts.
func (a *analyzer) rows(i int) {
	cell := &a.run.Cells[i]
	data := &a.cells[i]
	if len(data.trials) == 0 {
		m, _ := a.known.Lookup(cell.Primary)
		a.out.Rows = append(a.out.Rows, Row{
			Cell: cell, Metric: m.Name, Unit: m.Unit, About: m, Value: math.NaN(), AdjLo: math.NaN(), AdjHi: math.NaN(),
			Floor: math.NaN(), Verdict: HasFailed,
		})
		return
	}
	var base *cellData
	if cell.Baseline != "" {
		if b, ok := a.byID[cell.Baseline]; ok {
			base = &a.cells[b]
		} else {
			a.warn(cell.ID, "baseline %q is not a cell of this run: no ratios", cell.Baseline)
		}
	}
	for _, m := range a.metricsOf(i) {
		r := Row{Cell: cell, Metric: m.Name, Unit: m.Unit, About: m, AdjLo: math.NaN(), AdjHi: math.NaN(), Floor: math.NaN()}
		values, ratios := data.compare(base, m)
		r.Value = summary(values, m)
		if !finite(r.Value) {
			continue // no generation has enough samples for this percentile
		}
		r.Generations, r.Blocks = len(values), size(values)
		if base != nil {
			a.estimate(&r, withoutCut(ratios), m)
		}
		a.out.Rows = append(a.out.Rows, r)
	}
}

// counts counts texts.
type counts map[string]int

type count struct {
	text string
	n    int
}

func (c counts) add(text string) { c[text]++ }

// sorted returns the texts, the most frequent first.
func (c counts) sorted() []count {
	list := make([]count, 0, len(c))
	for text, n := range c {
		list = append(list, count{text, n})
	}
	slices.SortFunc(list, func(x, y count) int { return cmp.Or(cmp.Compare(y.n, x.n), cmp.Compare(x.text, y.text)) })
	return list
}
