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

// Change is the change of one cell in one metric between two runs, old and new.
type Change struct {
	Old, New *Row // rows of their runs; nil if that run has no such row
	Primary  bool // the metric is the one that governed stopping
	// Row is the change, for the cell of the new run. Its Estimate is a ratio of ratios, new over old, each to the
	// baseline of its own run. Its Difference is a difference of differences, in Unit. Value is NaN. Blocks and
	// Generations are sums over both runs. For Floor and Verdict see [Compare]; Faster means that the cell became faster.
	//
	// Own is the change of the value itself, new over old or new − old, which also depends on the machine. If values are
	// compared (see [Comparing]), it equals Row's own Effect.
	Row
	// Shift is the change of a baseline, if ratios are compared: faster, slower, higher or lower if its interval,
	// [ShiftLo, ShiftHi], lies wholly beyond the floor, and by more than other programs explain; else "". The ratios do
	// not show that change. If other programs or the hypervisor may explain it, Unsure has the direction instead.
	Shift, Unsure    Verdict
	ShiftLo, ShiftHi float64
	OldLoad, NewLoad Load // what else used the CPUs in the two runs
}

// Drift returns the cell's value in the new run over its value in the old one, which also depends on the machine; NaN
// if unknown.
func (c Change) Drift() float64 {
	if c.Old == nil || c.New == nil {
		return math.NaN()
	}
	return math.Exp(LogRatio(c.New.Value, c.Old.Value))
}

// Compare compares the cells that both runs have, by id, in each metric that either run has for the cell, in the order
// of the new run. Each ratio is to the baseline of its own run, measured in the same blocks. So a machine that was
// slower in one of the runs cancels.
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
// The floor is √(f_old² + f_new²), where f_i are the floors of the two runs. Each floor is the difference that the
// machine makes between two equal stacks within a run; those of two runs are independent. The sum of both floors would
// be safer if all ratios of a run are off together, but would miss half of the changes that this floor finds. The
// twins' own ratio of ratios would find a little more, and be less safe: see TestEqualRuns. The floor is unknown if one
// of the two is.
//
// Verdicts follow [Comparison.Decide]. All cells in their primary metrics are one family for Holm's procedure: at most
// 5 % of pairs of equal runs show any difference there. In other metrics, all cells in that metric are one family. For
// the margin see [Margin].
func Compare(older, newer Side) []Change {
	return Comparing{}.Compare(older, newer)[0]
}

// Comparing says how runs are compared.
type Comparing struct {
	// Absolute compares values instead of ratios to the baseline, and the baseline's value as well. D is then ln of the
	// new value over the old one, or their difference, and s_i the standard error of a value over generations. The runs
	// may differ in kernel, machine and settings; D then includes those differences.
	Absolute bool
}

// Compare does what [Compare] does, for several runs against the same older one. All of them are one family for Holm's
// procedure.
func (how Comparing) Compare(older Side, newer ...Side) [][]Change {
	lists := make([][]Change, len(newer))
	margins := make([]float64, len(newer))
	for i, s := range newer {
		lists[i], margins[i] = how.pair(older, s), Margin(older.Run.Design, s.Run.Design)
	}
	decide(lists, margins)
	return lists
}

// pair lists the changes of two runs, without verdicts.
func (how Comparing) pair(older, newer Side) []Change {
	before, after, inOld := rowsByCell(older.Analysis), rowsByCell(newer.Analysis), cellsByID(older.Run)
	var list []Change
	for i := range newer.Run.Cells {
		cell := &newer.Run.Cells[i]
		if inOld[cell.ID] == nil {
			continue
		}
		x, y := before[cell.ID], after[cell.ID]
		if failed(x) || failed(y) { // a failed cell has a single row, in its primary metric
			x, y = only(x, cell.Primary), only(y, cell.Primary)
		}
		known := map[string]*Row{}
		for _, r := range x {
			known[r.Metric] = r
		}
		for _, r := range y {
			list = append(list, how.change(cell, known[r.Metric], r).under(older, newer))
			delete(known, r.Metric)
		}
		for _, r := range x {
			if known[r.Metric] != nil {
				list = append(list, how.change(cell, r, nil).under(older, newer))
			}
		}
	}
	return list
}

// Margin returns the share within which a change between two runs counts as none: the larger of the margins that the
// runs asked for. If neither did, it is the larger of 5 % and twice the precision of both together, √(d_new² + d_old²).
func Margin(older, newer Design) float64 {
	if m := max(older.Margin, newer.Margin); m > 0 {
		return m
	}
	return Design{Precision: math.Hypot(older.Precision, newer.Precision)}.Equal()
}

// rowsByCell returns the rows of each cell, in the order of the analysis.
func rowsByCell(a Analysis) map[string][]*Row {
	m := map[string][]*Row{}
	for i := range a.Rows {
		r := &a.Rows[i]
		m[r.Cell.ID] = append(m[r.Cell.ID], r)
	}
	return m
}

func failed(rows []*Row) bool {
	return slices.ContainsFunc(rows, func(r *Row) bool { return r.Verdict.Failed() })
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

// change compares two rows of a cell. One of them may be nil.
func (how Comparing) change(cell *Cell, before, after *Row) Change {
	one := cmp.Or(after, before)
	nan := math.NaN()
	c := Change{
		Old: before, New: after, Primary: one.Metric == cell.Primary,
		Row: Row{
			Cell: cell, Metric: one.Metric, Unit: one.Unit, About: one.About, Value: nan, ValueLo: nan, ValueHi: nan,
			AdjLo: nan, AdjHi: nan, Floor: nan, Verdict: NotPrecise,
		},
		ShiftLo: nan, ShiftHi: nan,
	}
	switch {
	case before != nil && before.Verdict == Leaks || after != nil && after.Verdict == Leaks:
		c.Verdict = Leaks
		return c
	case before != nil && before.Verdict.Failed() || after != nil && after.Verdict.Failed():
		c.Verdict = HasFailed
		return c
	case cell.Alone != "" && !cell.Twin:
		c.Verdict = IsAlone
	case cell.Baseline == "" && !how.Absolute:
		c.Verdict = IsBaseline
	case cell.Twin:
		c.Verdict = IsTwin
	case cell.Probe != "":
		c.Verdict = IsProbed
	case !one.About.Compares():
		c.Verdict = NotCompared
	}
	if before == nil || after == nil {
		return c
	}
	c.Floor, c.Moved = math.Hypot(before.Floor, after.Floor), before.Moved+after.Moved
	c.Blocks, c.Generations = before.Blocks+after.Blocks, before.Generations+after.Generations
	if c.Verdict == NotPrecise && min(before.Generations, after.Generations) < LeastGenerations {
		c.Verdict = TooFew
	}
	c.Own = between(before.Own, after.Own)
	if c.Effect = c.Own; !how.Absolute {
		c.Effect = between(before.Effect, after.Effect)
	}
	return c
}

// under returns the change with the loads of both runs.
func (c Change) under(older, newer Side) Change {
	c.OldLoad, c.NewLoad = older.Analysis.Load, newer.Analysis.Load
	return c
}

// between returns the change from one effect to another: a ratio of ratios, or a difference of differences.
func between(before, after Effect) Effect {
	nan := math.NaN()
	switch {
	case before.HasRatio && after.HasRatio:
		x, y := before.Estimate, after.Estimate
		w := welch(tEstimate{mean: x.Log, stderr: x.StdErr, df: x.DF}, tEstimate{mean: y.Log, stderr: y.StdErr, df: y.DF})
		e := Estimate{
			Ratio: math.Exp(w.mean), Log: w.mean, StdErr: w.stderr, DF: w.df, P: w.p,
			Generations: x.Generations + y.Generations, Blocks: x.Blocks + y.Blocks, Spread: nan,
		}
		i := e.Interval(drawn)
		e.Lo, e.Hi = i.Lo, i.Hi
		return Effect{HasRatio: true, Estimate: e}
	case before.HasDifference && after.HasDifference:
		x, y := before.Difference, after.Difference
		w := welch(tEstimate{mean: x.Points, stderr: x.StdErr, df: x.DF},
			tEstimate{mean: y.Points, stderr: y.StdErr, df: y.DF})
		d := Difference{
			Points: w.mean, StdErr: w.stderr, DF: w.df, P: w.p, Generations: x.Generations + y.Generations,
			Blocks: x.Blocks + y.Blocks, Spread: nan,
		}
		i := d.Interval(drawn)
		d.Lo, d.Hi = i.Lo, i.Hi
		return Effect{HasDifference: true, Difference: d}
	}
	return Effect{}
}

// welch subtracts one estimate from another, with the degrees of freedom as in [Compare].
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

// decide runs Holm's procedure and gives each change its verdict. Element i of margins is the margin of lists[i].
func decide(lists [][]Change, margins []float64) {
	type place struct{ list, at int }
	families := map[string][]place{} // by metric; "" holds the primary metrics
	var baselines []*Change
	for l := range lists {
		for i := range lists[l] {
			c, at := &lists[l][i], place{l, i}
			switch {
			case c.Verdict == IsTwin || c.Verdict == IsProbed || c.Verdict == IsAlone || c.Verdict == TooFew:
				c.adjusted(drawn)
			case c.Verdict == IsBaseline && c.Primary:
				baselines = append(baselines, c)
			case c.Verdict != NotPrecise || !c.HasRatio && !c.HasDifference:
			case c.Primary:
				families[""] = append(families[""], at)
			default:
				families[c.Metric] = append(families[c.Metric], at)
			}
		}
	}
	for _, name := range sortedKeys(families) {
		rows := make([]*Row, len(families[name]))
		for i, p := range families[name] {
			rows[i] = &lists[p.list][p.at].Row
		}
		judgeEach(rows, func(i int) float64 { return margins[families[name][i].list] }, drawn)
	}
	shifts(baselines)
}

// Worse reports whether a change is for the worse: slower, or, in a metric that is not a speed, away from its better
// direction. For a baseline, the change of its own value counts.
func (c Change) Worse() bool { return c.worse(cmp.Or(c.Shift, c.Verdict)) }

// SeemsWorse reports whether the value of a baseline became worse and the load of the machine may explain it.
func (c Change) SeemsWorse() bool { return c.worse(c.Unsure) }

func (c Change) worse(v Verdict) bool {
	switch v {
	case Slower:
		return true
	case Higher:
		return c.About.Better == LowerBetter
	case Lower:
		return c.About.Better == HigherBetter
	}
	return false
}

// Obstacle is a difference between two runs that alone may change their ratios.
type Obstacle struct {
	What     string
	Old, New string   // "" if a run does not have it
	Cells    []string // ids of the cells that it is about; none if it is about the whole runs
	// Essential is true if even values cannot be compared: the cells did, or measured, something else.
	Essential bool
}

// Obstacles returns the differences between two runs that a ratio to the baseline may depend on, as far as both runs
// know them. It ignores seed, time, precision, the numbers of blocks and generations, the names of hosts, and cells
// that only one run has.
func Obstacles(older, newer Side) []Obstacle {
	var list obstacles
	list.add("nettoll version", family(older.Run.Versions["nettoll"]), family(newer.Run.Versions["nettoll"]), "")
	x, y := facts(older), facts(newer)
	inNew := cellsByID(newer.Run)
	var common []*Cell
	for i := range older.Run.Cells {
		if o := &older.Run.Cells[i]; inNew[o.ID] != nil {
			common = append(common, o)
		}
	}
	for _, f := range circumstances() {
		own := false // each cell has its own, as one of its parts
		for _, o := range common {
			own = own || o.Part(f.key) != "" || inNew[o.ID].Part(f.key) != ""
		}
		if !own {
			list.add(f.what, x[f.key], y[f.key], "")
			continue
		}
		for _, o := range common {
			list.add(f.what, o.circumstance(f.key, x), inNew[o.ID].circumstance(f.key, y), o.ID)
		}
	}
	for _, o := range common {
		list.cells(older.Run, newer.Run, o, inNew[o.ID])
	}
	for _, o := range common {
		for _, side := range []string{"sources", "sinks"} {
			list.add("CPUs of the "+side, x[cpusOf(older.Run, o, side)], y[cpusOf(newer.Run, inNew[o.ID], side)], "")
		}
	}
	// Facts about sockets are known by cell and side: "CELL sink".
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

// circumstances returns the facts about machine and run that a ratio may depend on, by their keys in run.json and
// records.jsonl.
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

// circumstance returns the cell's own circumstance, or else that of its run.
func (c *Cell) circumstance(key string, run map[string]string) string {
	if own := c.Part(key); own != "" && own != "auto" { // auto: the run's fact has the choice
		return own
	}
	return run[key]
}

// cpusOf returns the key of the fact about the CPUs of a cell's side ("sources", "sinks"). For the affinity of the
// run's first cell, the key has no suffix.
func cpusOf(run Run, c *Cell, side string) string {
	if c.Affinity == run.Cells[0].Affinity {
		return "cpus_" + side
	}
	return "cpus_" + side + "_" + c.Affinity
}

// facts returns the facts about a run as texts. Equal facts have equal texts.
func facts(s Side) map[string]string {
	m := map[string]string{}
	for _, f := range s.Analysis.Facts {
		if _, ok := m[f.Key]; !ok {
			m[f.Key] = plainly(f.Value)
		}
	}
	for _, k := range s.Run.FactKeys() {
		if x, known := s.Run.Facts[k]; known {
			m[k] = plainly(x)
		}
		for _, other := range s.Run.Differing(k) {
			m[k] += fmt.Sprintf("; %s: %s", other.Machine, plainly(other.Facts[k]))
		}
	}
	if m["underlay"] == "" { // recorded only if it differs from the kernel's default
		m["underlay"] = "as the kernel makes it"
	}
	return m
}

// plainly returns the text of a fact, which is the same whether the fact comes from memory or from a file.
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

// sockets returns the options that the kernel granted: by "CELL SIDE", and by name of the option.
func sockets(s Side) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, f := range s.Analysis.Facts {
		if !strings.HasPrefix(f.Key, "sockets of ") {
			continue
		}
		var granted map[string]map[string]any
		if b, err := json.Marshal(f.Value); err != nil || json.Unmarshal(b, &granted) != nil {
			continue // a newer nettoll wrote it in another shape
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

// family returns the part of a version that versions with comparable figures share: "0.1" for v0.1.3. For a version
// that is not a release, it is the whole version.
func family(version string) string {
	f := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(f) < 3 || strings.Trim(f[0]+f[1], "0123456789") != "" {
		return version
	}
	return f[0] + "." + f[1]
}

type obstacles []Obstacle

// essential lists the differences that make even values incomparable.
func essential() []string {
	return []string{"trial length", "primary metric", "workload", "twin", "family", "placement", "pairs"}
}

// add adds a difference if both runs know the fact. Cells with the same difference are listed together.
func (l *obstacles) add(what, before, after, cell string) {
	if before == after || before == "" || after == "" {
		return
	}
	i := slices.IndexFunc(*l, func(o Obstacle) bool {
		return o.What == what && o.Old == before && o.New == after && (len(o.Cells) == 0) == (cell == "")
	})
	if i < 0 {
		o := Obstacle{What: what, Old: before, New: after, Essential: cell != "" && slices.Contains(essential(), what)}
		*l, i = append(*l, o), len(*l)
	}
	if o := &(*l)[i]; cell != "" && !slices.Contains(o.Cells, cell) {
		o.Cells = append(o.Cells, cell)
	}
}

// cells adds the differences between two runs of a cell.
func (l *obstacles) cells(older, newer Run, o, n *Cell) {
	named := func(s string) string { return cmp.Or(s, "none") }
	// A run records a parameter only if some cell does not have its default. So one run may have a parameter that the
	// other omits. The ids, which are equal, have every parameter that is not at its default.
	both := func(c, other *Cell) string {
		params := maps.Clone(c.Params)
		maps.DeleteFunc(params, func(name, _ string) bool { _, has := other.Params[name]; return !has })
		return pretty(c.Workload, params)
	}
	some := func(n int) string { return strings.TrimPrefix(strconv.Itoa(n), "0") } // 0: unknown
	for _, x := range []struct{ what, before, after string }{
		{"trial length", length(older, o.ID), length(newer, n.ID)},
		{"baseline", named(o.Baseline), named(n.Baseline)},
		{"primary metric", named(o.Primary), named(n.Primary)},
		{"workload", both(o, n), both(n, o)},
		{"twin", strconv.FormatBool(o.Twin), strconv.FormatBool(n.Twin)},
		{"family", o.Family, n.Family},
		{"affinity", o.Affinity, n.Affinity},
		{"idle", cmp.Or(o.Idle, "deep"), cmp.Or(n.Idle, "deep")}, // before it was recorded, nobody kept CPUs awake
		{"placement", o.Placement, n.Placement},
		{"hosts of the lab", some(o.Hosts), some(n.Hosts)},
		{"pairs", strconv.Itoa(o.Pairs), strconv.Itoa(n.Pairs)},
	} {
		l.add(x.what, x.before, x.after, o.ID)
	}
	for _, p := range o.Parts {
		if slices.ContainsFunc(circumstances(), func(f struct{ key, what string }) bool { return f.key == p.Kind }) {
			continue // already compared as a circumstance
		}
		l.add(p.Kind, p.ID, n.Part(p.Kind), o.ID)
	}
	for _, kind := range sortedKeys(o.Implementation) {
		l.add("implementation of the "+kind, o.Implementation[kind], n.Implementation[kind], o.ID)
	}
}

// length returns the length of a cell's trials in milliseconds; "" if unknown.
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
