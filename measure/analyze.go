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

// Analysis holds the results of a run. Every report is made from it, and the controller reads it at its looks.
type Analysis struct {
	Rows     []Row
	Floors   []GroupFloor
	Probes   []ProbeCost
	Beside   []Direct // members of mixes against the same pairs alone, in each metric that both have
	Failed   []FailedCell
	Warnings []Warning // of the log, of its trials (each text once a cell, with a count) and of the analysis
	Proofs   []Proof
	Matrices []Matrix
	Attacks  []Attacks
	Facts    []Fact
	// Proving is the time that proofs and audits took outside blocks, as a share of the measuring time; 0: not known.
	Proving     float64
	Labs        []LabFigure       // the cost of building and changing labs
	Containers  []LabFigure       // what single containers used in trials
	Rebuilt     []LabFigure       // the same for labs that were built once more, because a program had died
	Rights      map[string]string // of containers, by lab, see [LabRights]
	Nodes       []NodeUse         // of machines whose counters were read
	Passed      []LabPassed       // what their devices have counted, see [PassedIn]
	Heard       []LabHeard        // what they have got from each other in proofs, see [HeardIn]
	Blocks      int               // distinct blocks seen
	Generations int               // distinct generations seen
	Trials      int               // trials seen, failed ones too
	// s, sum of the trials' windows; members of a mix share one window, which counts once
	Measured float64
	Standing Standing
	Load     Load // what else used the CPUs during the measurement
	// Moved is how far other programs are taken to have moved ratios, as a natural logarithm; 0 if they hardly ran. See
	// [Run.Moved].
	Moved   float64
	Spoiled []Spoiled // of the groups whose threads' waiting time for a CPU is known

	tallies map[string]map[string][]tally // histograms by cell and the prefix of their metrics
	from    *analyzer                     // keeps the trials for [Analysis.Direct]
}

// Standing says whether a run ended, and which of its records failed their checksums.
type Standing struct {
	Version    int      // of the records; 0: there are none, or they were not read from a file
	End        *End     // nil: the run did not end, or its records have version 1, which does not say so
	Complete   int      // generations measured to their end
	Resumes    []Resume // every time it was resumed
	Changed    []string // as in Log
	RunChanged bool     // run.json has changed since the run began
}

// Old reports whether the records have version 1: no checksums, and no word on whether the run ended. run is the
// version of run.json.
func (s Standing) Old(run int) bool { return max(run, s.Version) < 2 }

// Row is one cell in one metric.
type Row struct {
	Cell   *Cell // points into Run.Cells
	Metric string
	Unit   string
	About  Metric // the description of Metric
	// Value is in Unit: the geometric mean over generations of the centers of their trials (see [Center]). For a share or
	// a count, it is the mean of their means; for a maximum, the largest of all trials. If the row has a ratio or a
	// difference, Value is the baseline's value times the ratio or plus the difference, so that value and change never
	// contradict each other. It is NaN if the cell failed.
	Value float64
	// ValueLo and ValueHi are the 95 % interval of Value over generations, in Unit; NaN if unknown. It is wider than that
	// of the ratio if the machine drifts.
	ValueLo, ValueHi float64
	// Own is the estimate of Value over generations: Estimate.Ratio is a value in Unit and Estimate.Log its logarithm, or
	// Difference.Points is the value. A single generation has neither. P has no meaning.
	Own Effect
	Effect
	// AdjLo and AdjHi are the interval at the level that Holm's procedure gives the row: ratios, or Unit if HasDifference.
	// The family is all cells of the run but baselines and twins, in this metric. Twins have their plain 95 % interval.
	AdjLo, AdjHi float64
	Verdict      Verdict
	// Components are zero unless the metric is the primary one of a cell that governs, with a value in each block.
	Components Components
	// Floor is the floor of the row's group and metric: a natural logarithm of a ratio, or Unit if the metric is compared
	// by difference; NaN if unknown.
	Floor float64
	// Moved is that of [Analysis]; 0 if the metric is compared by difference. For a change between two runs it is the sum
	// of both.
	Moved float64
	// Blocks is the number of blocks behind the ratio or difference (for a quantile: of groups of blocks). For a baseline
	// or a row without a ratio, it is the number behind the value.
	Blocks      int
	Generations int
	// Limit says what kept the value from being higher ("sender", "path", "receiver"): the most frequent answer of the
	// cell's trials. LimitShare is the share of trials that gave it. Limit is "" in rows of other metrics than the primary
	// one, and if no trial gave an answer.
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

// Analyze reduces the records of a run to its results. The run may be interrupted, have failed trials, or have cells
// that left early. If a cell or its baseline has no usable trial in a block, the block does not count for that cell's
// ratios. A final generation that was cut short (fewer than half the blocks of the one before) is left out of estimates
// if at least 5 others remain. Blocks in which other programs took the CPU may be set aside: see [Spoiled].
func Analyze(run Run, log *Log) Analysis {
	a := &analyzer{run: run, known: run.Vocabulary(), log: log, cells: make([]cellData, len(run.Cells))}
	a.index()
	a.histograms()
	a.joints()
	// Cells do not depend on each other, and 100,000 trials keep every CPU busy.
	own := make([]analyzer, len(a.cells))
	each(len(a.cells), func(i int) {
		own[i] = analyzer{run: run, known: a.known, cells: a.cells, joint: a.joint, byID: a.byID, leaks: a.leaks}
		own[i].rows(i)
	})
	for i := range own {
		a.out.Rows = append(a.out.Rows, own[i].out.Rows...)
		a.out.Warnings = append(a.out.Warnings, own[i].out.Warnings...)
	}
	a.paired()
	a.floors()
	a.adjust()
	a.beside()
	a.limits()
	a.probes()
	a.memories = sync.OnceValue(a.estimateMemories)
	out := a.out
	out.from = a
	return out
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

// Distribution merges the histograms of a cell in a metric ("latency", "oneway_latency"); ok is false if there are
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
	joint []*cellData // of baselines that have twins: the baseline joined with them; else nil
	byID  map[string]int
	out   Analysis

	spoiled map[oneTrial]bool // of those that were judged
	aside   map[oneTrial]bool // those that were set aside

	unproven map[labIn]bool  // labs with a claim that did not hold
	leaks    map[string]bool // labs, by their ids

	memories func() []Memory // estimated once, for the first view that needs it
}

type cellData struct {
	trials  []*Trial // usable ones, by generation and block
	columns map[string]*column
	tallies map[string][]tally // histograms by the prefix of their metrics: "latency_"
}

// column holds a metric of a cell's trials, so that no trial's map is asked more than once for a metric.
type column struct {
	values []float64 // of the usable trials, in their order
	has    []bool
	n      int // number of trials that have it
}

func newColumn(trials int) *column {
	return &column{values: make([]float64, trials), has: make([]bool, trials)}
}

func (c *column) set(trial int, x float64) {
	c.values[trial], c.has[trial] = x, true
	c.n++
}

// byBlock orders trials by generation and block.
func byBlock(x, y *Trial) int {
	return cmp.Or(cmp.Compare(x.Generation, y.Generation), cmp.Compare(x.Block, y.Block))
}

// transpose fills the columns from the trials. Those of a cell have nearly always the same metrics, and to look up so
// many is cheaper than to go through a map.
func (c *cellData) transpose() {
	c.columns = map[string]*column{}
	var names []string
	var columns []*column // of the names, which spares a second look into a map
	for i, t := range c.trials {
		found := 0
		for k, name := range names {
			if x, ok := t.Metrics[name]; ok {
				found++
				columns[k].set(i, x)
			}
		}
		if found == len(t.Metrics) {
			continue
		}
		for name, x := range t.Metrics {
			if c.columns[name] != nil {
				continue
			}
			col := newColumn(len(c.trials))
			names, columns = append(names, name), append(columns, col)
			c.columns[name] = col
			col.set(i, x)
		}
	}
}

// count returns the number of trials that have a metric.
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

// index sorts the trials by cell, counts doubts and failures, and leaves out the blocks that are set aside.
func (a *analyzer) index() {
	a.out.Proofs, a.out.Matrices, a.out.Attacks = a.log.Proofs, a.log.Matrices, a.log.Attacks
	a.out.Facts = a.log.Facts
	if e := a.log.End; e != nil && e.Measured > 0 {
		a.out.Proving = e.Proving / e.Measured
	}
	a.out.Standing = Standing{
		Version: a.log.Version, End: a.log.End, Complete: len(a.log.Generations), Resumes: a.log.Resumes,
		Changed: a.log.Changed, RunChanged: a.log.RunChanged,
	}
	a.out.Labs, a.out.Rebuilt = LabFigures(a.known, a.log.Labs, false), LabFigures(a.known, a.log.Labs, true)
	a.out.Containers, a.out.Rights = ContainerFigures(a.known, a.log.Labs), LabRights(a.log.Labs)
	a.out.Nodes, a.out.Passed, a.out.Heard = NodeUses(a.log.Blocks), PassedIn(a.log.Labs), HeardIn(a.log.Labs)
	a.out.Load = LoadOf(a.log.Blocks)
	a.out.Moved = a.run.Moved(a.out.Load)
	a.out.Warnings = slices.Clone(a.log.Warnings)
	a.byID = make(map[string]int, len(a.run.Cells))
	for i, c := range a.run.Cells {
		a.byID[c.ID] = i
		a.cells[i].tallies = map[string][]tally{}
	}
	blocks, generations := map[visit]bool{}, map[int]bool{}
	all := make([][]*Trial, len(a.cells))
	unknown := counts{}
	type moment struct {
		visit
		start float64
	}
	var last visit
	mixed := map[moment]bool{} // the moments at which members of a mix were measured together
	for i := range a.log.Trials {
		t := &a.log.Trials[i]
		a.out.Trials++
		c, ok := a.byID[t.Cell]
		at := moment{blockOf(t), t.Start}
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
		if len(blocks) == 0 || at.visit != last {
			blocks[at.visit], generations[t.Generation] = true, true
			last = at.visit
		}
		all[c] = append(all[c], t)
	}
	a.out.Blocks, a.out.Generations = len(blocks), len(generations)
	for _, u := range unknown.sorted() {
		a.warn("", "%d trials of cell %q, which run.json does not name, are not used: restore the run.json of these "+
			"records, or measure again", u.n, u.text)
	}
	a.judgeProofs()
	for i, trials := range all {
		id := a.run.Cells[i].ID
		if !slices.IsSortedFunc(trials, byBlock) {
			slices.SortStableFunc(trials, byBlock)
		}
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
			if a.unproven[labOf(&a.run.Cells[i], t.Generation)] {
				failed.add("the proof of their lab failed in this generation")
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
				if a.run.Standing {
					a.warn(id, "%d of %d trials failed: %s: see what the machines of its hosts log", r.n, n, r.text)
					continue
				}
				a.warn(id, "%d of %d trials failed: %s: look for the cause with nettoll lab up", r.n, n, r.text)
			}
		}
	}
	a.spoil()
	each(len(a.cells), func(i int) { a.cells[i].transpose() })
}

func (a *analyzer) histograms() {
	byCell := make([]map[string][]Histograms, len(a.cells))
	for _, h := range a.log.Histograms {
		i, ok := a.byID[h.Cell]
		if !ok || a.unproven[labOf(&a.run.Cells[i], h.Generation)] {
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
			a.warn(a.run.Cells[d.cell].ID, "%v; no percentile of this cell is used: restore records.jsonl from a copy, "+
				"or measure again", d.err)
			continue
		}
		a.cells[d.cell].tallies[d.prefix] = d.list
		a.out.tallies[a.run.Cells[d.cell].ID] = a.cells[d.cell].tallies
	}
}

// joints joins each baseline with its twins, see [analyzer.join].
func (a *analyzer) joints() {
	a.joint = make([]*cellData, len(a.cells))
	copies := make([][]*cellData, len(a.cells))
	for i := range a.cells {
		if c := &a.run.Cells[i]; c.Twin && c.Probe == "" {
			if b, ok := a.byID[c.Baseline]; ok && len(a.cells[i].trials) > 0 {
				copies[b] = append(copies[b], &a.cells[i])
			}
		}
	}
	each(len(a.cells), func(i int) {
		if len(copies[i]) > 0 && len(a.cells[i].trials) > 0 {
			a.joint[i] = a.join(append(copies[i], &a.cells[i]))
		}
	})
}

// base returns the baseline that a cell is compared with; nil if the cell is a baseline, or if its own is not in the
// run.
func (a *analyzer) base(i int) *cellData {
	cell := &a.run.Cells[i]
	b, ok := a.byID[cell.Baseline]
	switch {
	case cell.Baseline == "" || cell.Alone != "" && !cell.Twin:
		return nil
	case !ok:
		a.warn(cell.ID, "no ratios, as baseline %q is not a cell of this run: restore its run.json, or measure again",
			cell.Baseline)
		return nil
	case cell.Twin || a.joint[b] == nil:
		return &a.cells[b]
	}
	return a.joint[b]
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

// histogramPrefix returns the prefix that a metric shares with its histogram ("latency_"), or "" if the metric is taken
// from trials alone. Every trial has the mean of its latencies. Means of other durations are in histograms alone,
// because a trial on a schedule has several of them.
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
	leaks := a.leaky(cell)
	if len(data.trials) == 0 {
		m, _ := a.known.Lookup(cell.Primary)
		a.out.Rows = append(a.out.Rows, Row{
			Cell: cell, Metric: m.Name, Unit: m.Unit, About: m, Value: math.NaN(), ValueLo: math.NaN(), ValueHi: math.NaN(),
			AdjLo: math.NaN(), AdjHi: math.NaN(), Floor: math.NaN(), Verdict: cmp.Or(leaks, HasFailed),
		})
		return
	}
	base := a.base(i)
	if leaks != "" || base != nil && a.leaky(&a.run.Cells[a.byID[cell.Baseline]]) != "" {
		base = nil // nothing is compared with what leaks
	}
	if a.joint[i] != nil {
		data = a.joint[i]
	}
	for _, m := range a.metricsOf(i) {
		r := Row{Cell: cell, Metric: m.Name, Unit: m.Unit, About: m, AdjLo: math.NaN(), AdjHi: math.NaN(), Floor: math.NaN()}
		r.Verdict = leaks
		values, ratios := data.compare(base, m)
		r.Value, r.ValueLo, r.ValueHi, r.Own = summary(values, m)
		if !finite(r.Value) {
			continue // no generation has enough samples for this percentile
		}
		r.Generations, r.Blocks = len(values), size(values)
		if base != nil && m.Kind != KindMax {
			a.estimate(&r, withoutCut(ratios), m)
			if cell.Governs() && m.Name == cell.Primary && !data.grouped(base, m) {
				r.Components = estimateComponents(withoutCut(ratios), m.Differs())
			}
		}
		a.out.Rows = append(a.out.Rows, r)
	}
}

// counts has the number of times that each text occurs.
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
