package measure

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Side is one of two runs that are compared.
type Side struct {
	Run      Run
	Analysis Analysis
}

// Change is what became of one cell in one metric between two runs, old and new.
type Change struct {
	Old, New *Row // in their runs; nil where that run has no such row
	Primary  bool // the metric is the one that governed stopping
	// Row is the change itself, of the new run's cell. Its Estimate is a ratio of ratios, new over old, both to the
	// baselines of their own runs; its Difference a difference of differences, in Unit. Value is NaN. Blocks and
	// Generations are those of both runs together, Floor and Verdict as Compare defines them: Faster is what has become
	// faster.
	Row
}

// Drift returns the cell's value in the new run over that in the old one, which the machine has a part in; NaN where it
// is not known.
func (c Change) Drift() float64 {
	if c.Old == nil || c.New == nil {
		return math.NaN()
	}
	return math.Exp(LogRatio(c.New.Value, c.Old.Value))
}

// Compare compares the cells that both runs have, by id, in each metric that one of them knows of the cell, in the
// order of the new run. Both ratios are to the baselines of their own runs, measured in the same blocks: what the
// machine does otherwise in the one run than in the other cancels.
//
//	D = L_new − L_old                                   ln of the ratio of ratios; or a difference of differences, in the
//	                                                    metric's unit
//	s² = s_new² + s_old²                                s_i the standard error of L_i
//	ν = s⁴ / (s_new⁴/ν_new + s_old⁴/ν_old)              degrees of freedom, ν_i = G_i − 1
//	D ± t(1−α/2, ν)·s                                   the interval, α = 0.04 (see Level)
//
// (B. L. Welch, The generalization of "Student's" problem when several different population variances are involved,
// Biometrika 34 (1947) 28; F. E. Satterthwaite, An approximate distribution of estimates of variance components,
// Biometrics Bulletin 2 (1946) 110.) The generations of the two runs are independent and may differ in number and
// spread.
//
// The floor is √(f_old² + f_new²), f_i the floors of the two runs: each is what the machine makes of two equal stacks
// within a run, and what it makes of them in one run is independent of the other. (Their sum would be safer where the
// ratios of a run are off as a whole, and would miss half of what this finds; the twins' own ratio of ratios would find
// a little more, and be less safe: see TestEqualRuns.) It is unknown where one of them is.
//
// Verdicts follow [Comparison.Decide]. Holm's family is all cells in their primary metrics, so that a pair of equal
// runs shows a difference in no more than 5 % of cases as a whole; in other metrics it is all cells in that metric.
// What each run was asked for adds up as errors do: the precision is √(ln²(1+d_new) + ln²(1+d_old)), of differences
// √(d_new² + d_old²).
func Compare(older, newer Side) []Change {
	before, after, inOld := rowsByCell(older.Analysis), rowsByCell(newer.Analysis), cellsByID(older.Run)
	var list []Change
	for i := range newer.Run.Cells {
		cell := &newer.Run.Cells[i]
		if inOld[cell.ID] == nil {
			continue
		}
		x, y := before[cell.ID], after[cell.ID]
		if failed(x) || failed(y) { // one row says so
			x, y = only(x, cell.Primary), only(y, cell.Primary)
		}
		known := map[string]*Row{}
		for _, r := range x {
			known[r.Metric] = r
		}
		for _, r := range y {
			list = append(list, change(cell, known[r.Metric], r))
			delete(known, r.Metric)
		}
		for _, r := range x {
			if known[r.Metric] != nil {
				list = append(list, change(cell, r, nil))
			}
		}
	}
	decide(list, older.Run.Design.Precision, newer.Run.Design.Precision)
	return list
}

// rowsByCell returns the rows of each cell, in their order.
func rowsByCell(a Analysis) map[string][]*Row {
	m := map[string][]*Row{}
	for i := range a.Rows {
		r := &a.Rows[i]
		m[r.Cell.ID] = append(m[r.Cell.ID], r)
	}
	return m
}

func failed(rows []*Row) bool {
	return slices.ContainsFunc(rows, func(r *Row) bool { return r.Verdict == HasFailed })
}

func only(rows []*Row, metric string) []*Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r *Row) bool { return r.Metric != metric })
}

func cellsByID(run Run) map[string]*Cell {
	m := make(map[string]*Cell, len(run.Cells))
	for i := range run.Cells {
		m[run.Cells[i].ID] = &run.Cells[i]
	}
	return m
}

// change puts two rows against each other. One of them may be nil.
func change(cell *Cell, before, after *Row) Change {
	one := cmp.Or(after, before)
	nan := math.NaN()
	c := Change{
		Old: before, New: after, Primary: one.Metric == cell.Primary,
		Row: Row{
			Cell: cell, Metric: one.Metric, Unit: one.Unit, About: one.About, Value: nan, AdjLo: nan, AdjHi: nan,
			Floor: nan, Verdict: NotPrecise,
		},
	}
	switch {
	case before != nil && before.Verdict == HasFailed || after != nil && after.Verdict == HasFailed:
		c.Verdict = HasFailed
		return c
	case cell.Baseline == "":
		c.Verdict = IsBaseline
	case cell.Twin:
		c.Verdict = IsTwin
	case cell.Probe != "":
		c.Verdict = IsProbed
	}
	if before == nil || after == nil {
		return c
	}
	c.Floor = math.Hypot(before.Floor, after.Floor)
	c.Blocks, c.Generations = before.Blocks+after.Blocks, before.Generations+after.Generations
	if c.Verdict == NotPrecise && min(before.Generations, after.Generations) < LeastGenerations {
		c.Verdict = TooFew
	}
	switch {
	case before.HasRatio && after.HasRatio:
		x, y := before.Estimate, after.Estimate
		w := welch(tEstimate{mean: x.Log, stderr: x.StdErr, df: x.DF}, tEstimate{mean: y.Log, stderr: y.StdErr, df: y.DF})
		e := Estimate{
			Ratio: math.Exp(w.mean), Log: w.mean, StdErr: w.stderr, DF: w.df, P: w.p, Generations: c.Generations,
			Blocks: c.Blocks, Spread: nan,
		}
		i := e.Interval(drawn)
		e.Lo, e.Hi = i.Lo, i.Hi
		c.HasRatio, c.Estimate = true, e
	case before.HasDifference && after.HasDifference:
		x, y := before.Difference, after.Difference
		w := welch(tEstimate{mean: x.Points, stderr: x.StdErr, df: x.DF},
			tEstimate{mean: y.Points, stderr: y.StdErr, df: y.DF})
		d := Difference{
			Points: w.mean, StdErr: w.stderr, DF: w.df, P: w.p, Generations: c.Generations, Blocks: c.Blocks,
			Spread: nan,
		}
		i := d.Interval(drawn)
		d.Lo, d.Hi = i.Lo, i.Hi
		c.HasDifference, c.Difference = true, d
	}
	return c
}

// welch subtracts one estimate from another.
func welch(before, after tEstimate) tEstimate {
	x, y := before.stderr*before.stderr, after.stderr*after.stderr
	t := tEstimate{mean: after.mean - before.mean, stderr: math.Sqrt(x + y), df: before.df + after.df}
	if x+y > 0 { // else both are exact
		x, y = x/(x+y), y/(x+y) // the squares of small errors could vanish
		t.df = 1 / (x*x/before.df + y*y/after.df)
	}
	t.p = twoSided(t.mean, t.stderr, t.df)
	return t
}

// decide runs Holm's procedure and gives each change its verdict.
func decide(list []Change, before, after float64) {
	families := map[string][]int{} // by metric; "" is that of the primary metrics
	for i := range list {
		c := &list[i]
		switch {
		case c.Verdict == IsTwin || c.Verdict == IsProbed || c.Verdict == TooFew:
			c.adjusted(drawn)
		case c.Verdict != NotPrecise || !c.HasRatio && !c.HasDifference:
		case c.Primary:
			families[""] = append(families[""], i)
		default:
			families[c.Metric] = append(families[c.Metric], i)
		}
	}
	for _, name := range sortedKeys(families) {
		members := families[name]
		p := make([]float64, len(members))
		for j, i := range members {
			if p[j] = list[i].Estimate.P; list[i].HasDifference {
				p[j] = list[i].Difference.P
			}
		}
		for j, level := range Holm(p, drawn) {
			c := &list[members[j]]
			c.adjusted(level)
			precision := math.Hypot(max(before, 0), max(after, 0))
			if c.HasRatio {
				precision = math.Expm1(math.Hypot(math.Log1p(max(before, 0)), math.Log1p(max(after, 0))))
			}
			c.Verdict = c.comparison(precision).Decide(c.About)
		}
	}
}

// Worse says whether a change is for the worse: slower, or of what is no speed the direction that is not the better
// one.
func (c Change) Worse() bool {
	switch c.Verdict {
	case Slower:
		return true
	case Higher:
		return c.About.Better == LowerBetter
	case Lower:
		return c.About.Better == HigherBetter
	}
	return false
}

// Obstacle is something in which two runs differ such that their ratios may differ for this reason alone.
type Obstacle struct {
	What     string
	Old, New string   // "" where a run does not have it
	Cells    []string // ids of the cells it is about; none where it is about the runs
}

// Obstacles returns what stands against comparing two runs: everything that a ratio to the baseline may depend on and
// that is known of both runs, but not alike. Seed, time, precision, the numbers of blocks and generations, the names of
// hosts and the cells that only one run has are none. Of cells only those that both runs have are looked at.
func Obstacles(older, newer Side) []Obstacle {
	var list obstacles
	list.add("nettoll version", family(older.Run.Versions["nettoll"]), family(newer.Run.Versions["nettoll"]), "")
	x, y := facts(older), facts(newer)
	for _, f := range circumstances() {
		list.add(f.what, x[f.key], y[f.key], "")
	}
	inNew := cellsByID(newer.Run)
	var common []*Cell
	for i := range older.Run.Cells {
		o := &older.Run.Cells[i]
		if n := inNew[o.ID]; n != nil {
			common = append(common, o)
			list.cells(older.Run, newer.Run, o, n)
		}
	}
	for _, o := range common {
		for _, side := range []string{"sources", "sinks"} {
			list.add("CPUs of the "+side, x[cpusOf(older.Run, o, side)], y[cpusOf(newer.Run, inNew[o.ID], side)], "")
		}
	}
	// What sockets were granted is known by cell and side: "CELL sink".
	granted, regranted := sockets(older), sockets(newer)
	for _, o := range common {
		for _, side := range []string{"source", "sink"} {
			before, after := granted[o.ID+" "+side], regranted[o.ID+" "+side]
			for _, key := range sortedKeys(before) {
				list.add(fmt.Sprintf("%s of the %s's sockets", strings.ReplaceAll(key, "_", " "), side), before[key], after[key],
					o.ID)
			}
		}
	}
	return list
}

// circumstances are the facts about machine and run that a ratio may depend on, as run.json and records.jsonl name
// them.
func circumstances() []struct{ key, what string } {
	return []struct{ key, what string }{
		{"kernel", "kernel release"},
		{"arch", "architecture"},
		{"cpu", "CPU model"},
		{"cpus", "number of CPUs"},
		{"mtu", "MTU"},
		{"underlay", "underlay"},
		{"congestion_control", "congestion control"},
		{"mitigations", "mitigations of the CPU's faults"},
		{"smt", "SMT"},
		{"governor", "CPU frequency governor"},
		{"clocksource", "clock source"},
		{"bpf_jit", "BPF compiler (net.core.bpf_jit_enable)"},
		{"rps_sock_flow_entries", "net.core.rps_sock_flow_entries"},
		{"seccomp", "seccomp mode"},
	}
}

// cpusOf names the fact about the CPUs that a side of a cell ran on. Of the affinity that the run's first cell has it
// bears no name.
func cpusOf(run Run, c *Cell, side string) string {
	if c.Affinity == run.Cells[0].Affinity {
		return "cpus_" + side
	}
	return "cpus_" + side + "_" + c.Affinity
}

// facts returns what is known of a run's circumstances, in words that are equal where the facts are.
func facts(s Side) map[string]string {
	m := map[string]string{}
	for _, f := range s.Analysis.Facts {
		if _, ok := m[f.Key]; !ok {
			m[f.Key] = plainly(f.Value)
		}
	}
	for k, x := range s.Run.Facts {
		m[k] = plainly(x)
	}
	if m["underlay"] == "" { // said of those alone that are not as the kernel makes them
		m["underlay"] = "as the kernel makes it"
	}
	return m
}

// plainly prints a fact the same whether it comes from memory or from a file.
func plainly(x any) string {
	switch x := x.(type) {
	case nil:
		return ""
	case string:
		return x
	}
	b, err := json.Marshal(x)
	if err != nil || string(b) == "null" {
		return ""
	}
	return string(b)
}

// sockets returns what the kernel granted, by cell and side, and by name.
func sockets(s Side) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, f := range s.Analysis.Facts {
		if !strings.HasPrefix(f.Key, "sockets of ") {
			continue
		}
		var granted map[string]map[string]any
		if b, err := json.Marshal(f.Value); err != nil || json.Unmarshal(b, &granted) != nil {
			continue // of another shape: a newer nettoll's
		}
		for end, values := range granted {
			m := map[string]string{}
			for k, x := range values {
				m[k] = plainly(x)
			}
			all[end] = m
		}
	}
	return all
}

// family is what versions that measure alike have in common: "0.1" of v0.1.3; of a version that is no release all of
// it.
func family(version string) string {
	f := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(f) < 3 || strings.Trim(f[0]+f[1], "0123456789") != "" {
		return version
	}
	return f[0] + "." + f[1]
}

type obstacles []Obstacle

// add adds what is known of both runs and not alike. Cells that differ in the same are named together.
func (l *obstacles) add(what, before, after, cell string) {
	if before == after || before == "" || after == "" {
		return
	}
	i := slices.IndexFunc(*l, func(o Obstacle) bool {
		return o.What == what && o.Old == before && o.New == after && (len(o.Cells) == 0) == (cell == "")
	})
	if i < 0 {
		*l, i = append(*l, Obstacle{What: what, Old: before, New: after}), len(*l)
	}
	if o := &(*l)[i]; cell != "" && !slices.Contains(o.Cells, cell) {
		o.Cells = append(o.Cells, cell)
	}
}

// cells adds in what a cell is not the same in both runs.
func (l *obstacles) cells(older, newer Run, o, n *Cell) {
	named := func(s string) string { return cmp.Or(s, "none") }
	// A parameter is in the records of a run where some cell has it otherwise than by default: one run may name what the
	// other need not. The ids, which are equal, have all that is no default.
	both := func(c, other *Cell) string {
		params := maps.Clone(c.Params)
		maps.DeleteFunc(params, func(name, _ string) bool { _, has := other.Params[name]; return !has })
		return pretty(c.Workload, params)
	}
	some := func(n int) string { return strings.TrimPrefix(strconv.Itoa(n), "0") } // 0 is not known
	for _, x := range []struct{ what, before, after string }{
		{"trial length", length(older, o.ID), length(newer, n.ID)},
		{"baseline", named(o.Baseline), named(n.Baseline)},
		{"primary metric", named(o.Primary), named(n.Primary)},
		{"workload", both(o, n), both(n, o)},
		{"twin", strconv.FormatBool(o.Twin), strconv.FormatBool(n.Twin)},
		{"family", o.Family, n.Family},
		{"affinity", o.Affinity, n.Affinity},
		{"placement", o.Placement, n.Placement},
		{"hosts of the lab", some(o.Hosts), some(n.Hosts)},
		{"pairs", strconv.Itoa(o.Pairs), strconv.Itoa(n.Pairs)},
	} {
		l.add(x.what, x.before, x.after, o.ID)
	}
	for _, p := range o.Parts {
		l.add(p.Kind, p.ID, n.Part(p.Kind), o.ID)
	}
	for _, kind := range sortedKeys(o.Implementation) {
		l.add("implementation of the "+kind, o.Implementation[kind], n.Implementation[kind], o.ID)
	}
}

// length prints the length of a cell's trials in milliseconds, "" where it is not known.
func length(run Run, id string) string {
	s, ok := run.Design.TrialSeconds[id]
	if !ok {
		return ""
	}
	return strconv.FormatFloat(1000*s, 'g', 6, 64) + " ms"
}

func pretty(workload string, params map[string]string) string {
	list := make([]string, 0, len(params))
	for _, k := range sortedKeys(params) {
		list = append(list, k+"="+params[k])
	}
	if len(list) == 0 {
		return workload
	}
	return workload + "(" + strings.Join(list, ",") + ")"
}
