package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report/figure"
)

// document is a run as the parts that HTML and Markdown write, in the order of reading.
type document struct {
	title    string
	subtitle string
	standing []Block // see [standing]
	answer   []string
	sure     []Block // how sure the answer is
	sections []part
}

// part is a titled part of a document. What follows its title comes in this order.
type part struct {
	title   string
	note    string // beside the title of what is folded
	id      string // of its place in the page; "" for none
	folded  bool   // shown when asked for
	open    bool   // if folded: shown at first all the same where there is room
	blocks  []Block
	figures []figure.Figure
	tables  []Block
	lists   []item
	code    string // shown as it is
	parts   []part
}

// item is an item of a list.
type item struct {
	text string
	tone Tone
	sub  []string
}

// fewGroups is how many groups are shown unfolded.
const fewGroups = 4

// fewStacks is how many stacks of a group have their further metrics unfolded.
const fewStacks = 3

func (v *view) document(c charts, sections []Section) document {
	d := document{title: printable(v.run.Name), subtitle: v.subtitle(), answer: v.sentences(), sure: v.sureness()}
	d.title = cmp.Or(d.title, "a run")
	for _, s := range standing(v.run, v.a) {
		d.standing = append(d.standing, Block{Text: s, Tone: Bad})
	}
	for _, s := range sections {
		d.sections = append(d.sections, part{title: s.Title, folded: s.Detail, blocks: s.Blocks})
	}
	if p, ok := v.overviewPart(c); ok {
		d.sections = append(d.sections, p)
	}
	if p, ok := v.curvesPart(c.curves); ok {
		d.sections = append(d.sections, p)
	}
	for i, g := range v.groups {
		d.sections = append(d.sections, v.groupPart(g, c.groups[i], len(v.groups) > fewGroups))
	}
	if s, ok := v.probeSection(); ok {
		d.sections = append(d.sections, part{title: s.Title, id: "probe", blocks: s.Blocks})
	}
	if s, ok := v.labSection(true); ok {
		d.sections = append(d.sections, part{title: s.Title, id: "labs", blocks: s.Blocks})
	}
	d.sections = append(d.sections, v.proofPart())
	if len(v.a.Failed) > 0 {
		d.sections = append(d.sections, part{title: "What failed", id: "failed", lists: items(v.failureTexts(), Bad)})
	}
	if texts := v.warningTexts(); len(texts) > 0 {
		d.sections = append(d.sections, part{title: "Doubts", id: "doubts", lists: items(texts, Doubt)})
	}
	d.sections = append(d.sections, v.environmentPart(), v.methodPart(), v.experimentPart())
	return d
}

func items(texts []string, t Tone) []item {
	list := make([]item, len(texts))
	for i, text := range texts {
		list[i] = item{text: text, tone: t}
	}
	return list
}

func (v *view) subtitle() string {
	when := ""
	if !v.run.Started.IsZero() {
		when = v.run.Started.UTC().Format("2 January 2006, 15:04 UTC")
	}
	return strings.TrimPrefix(when+" · "+v.circumstances(), " · ")
}

// differs says whether a stack differs from its baseline in the figure of a workload.
func (v *view) differs() bool {
	return slices.ContainsFunc(v.groups, func(g *group) bool {
		return slices.ContainsFunc(g.compared(), func(c *measure.Cell) bool {
			r := g.row(c, g.primary.Name)
			return r != nil && differing(r.Verdict)
		})
	})
}

// sureness is what a reader has to know before believing the answer.
func (v *view) sureness() []Block {
	var list []Block
	if v.comparisons() > mostSentences && v.differs() {
		list = []Block{{Text: "Each range covers only the comparisons that differ. The tables below show each one with its " +
			"interval.", Tone: Quiet}}
	}
	list = append(list, Block{Text: v.measured()})
	proofs, broken := proved(v.a.Proofs)
	switch {
	case proofs == 0:
		list = append(list, Block{Text: "No proof was recorded for the networks that were measured.", Tone: Doubt})
	case broken > 0:
		list = append(list, Block{
			Text: fmt.Sprintf("%s failed: see below.", count(broken, "proof", "proofs")), Tone: Bad,
		})
	default:
		list = append(list, Block{
			Text: count(proofs, "proof", "proofs") + " made, none failed.",
		})
	}
	if n := len(v.a.Failed); n > 0 {
		list = append(list, Block{
			Text: fmt.Sprintf("%s no result: see below.", count(n, "cell has", "cells have")), Tone: Bad,
		})
	}
	if n := len(v.warningTexts()); n > 0 {
		list = append(list, Block{Text: fmt.Sprintf("%s: see below.", count(n, "doubt", "doubts")), Tone: Doubt})
	}
	return list
}

// overviewPart has every comparison on one scale.
func (v *view) overviewPart(c charts) (part, bool) {
	if c.overview == nil {
		return part{}, false
	}
	return part{title: "Overview", id: "overview", figures: c.overview}, true
}

// tally counts the verdicts of a group.
func (g *group) tally() string {
	counts := map[measure.Verdict]int{}
	for _, c := range g.compared() {
		if r := g.row(c, g.primary.Name); r != nil {
			counts[r.Verdict]++
		} else {
			counts[measure.NotPrecise]++
		}
	}
	var list []string
	for _, x := range []measure.Verdict{
		measure.Slower, measure.Faster, measure.Higher, measure.Lower, measure.NoDifference, measure.NotPrecise,
		measure.TooFew, measure.HasFailed,
	} {
		if n := counts[x]; n > 0 {
			list = append(list, strconv.Itoa(n)+" "+verdict(x, g.primary, true).text)
		}
	}
	return strings.Join(list, ", ")
}

// resultFields are value, change, interval, verdict and floor of a cell in a metric.
func (g *group) resultFields(c *measure.Cell, r *measure.Row) []Field {
	if r == nil {
		said := verdict(measure.NotPrecise, g.primary, false)
		if c == g.base {
			said = verdict(measure.IsBaseline, g.primary, false)
		}
		return []Field{{"–", Quiet}, {}, {}, {said.text, said.style.tone()}, {}}
	}
	m := r.About
	point, interval := change(r)
	said := judged(r, m, false)
	return []Field{
		{Text: number(r.Value, r.Unit)},
		{Text: point},
		{Text: interval},
		{said.text, said.style.tone()},
		{cmp.Or(margin(r.Floor, m), "unknown"), Quiet},
	}
}

func (v *view) groupPart(g *group, figures []figure.Figure, folded bool) part {
	p := part{title: g.heading(), id: "group-" + g.slug, folded: folded, figures: figures}
	if folded {
		p.note = labelOf(g.primary) + ": " + cmp.Or(g.tally(), "nothing to compare")
	}
	t := &Table{Caption: capital(labelOf(g.primary)), Columns: []Column{
		{"stack", false},
		{labelOf(g.primary), true},
		{g.over(), true},
		{"95 % interval", false},
		{"verdict", false},
		{"floor", true},
	}}
	for _, c := range g.cells {
		t.Rows = append(t.Rows, append([]Field{{Text: name(c)}}, g.resultFields(c, g.row(c, g.primary.Name))...))
		if c == g.base {
			for _, twin := range g.twinned {
				if r := g.row(twin, g.primary.Name); r != nil {
					t.Rows = append(t.Rows, append([]Field{{Text: name(twin) + ", twin"}}, g.resultFields(twin, r)...))
				}
			}
		}
	}
	p.tables = append(p.tables, Block{Table: t}, Block{Text: capital(g.floorText()) + ".", Tone: Quiet})
	for _, text := range g.implementationTexts() {
		p.tables = append(p.tables, Block{Text: text + "."})
	}
	if text := g.limitText(); text != "" {
		p.tables = append(p.tables, Block{Text: capital(text) + "."})
	}
	cells := g.compared()
	if len(cells) == 0 {
		cells = g.cells
	}
	more := part{title: "More metrics", folded: true, open: len(cells) <= fewStacks}
	for _, c := range cells {
		rows := v.metrics(g, c, false)
		names := v.metricNames(g, c)
		kept := [][]field{rows[0]}
		for i, r := range rows[1:] {
			if names[i] != g.primary.Name {
				kept = append(kept, r)
			}
		}
		if len(kept) > 1 {
			more.tables = append(more.tables, Block{Table: tableOf(name(c), kept)})
		}
	}
	if more.tables != nil {
		if n := len(more.tables); n > 1 {
			more.title += " of " + count(n, "stack", "stacks")
		}
		p.parts = append(p.parts, more)
	}
	return p
}

func (v *view) metricNames(g *group, c *measure.Cell) []string {
	names := map[string]bool{}
	for metric := range g.rows[c.ID] {
		names[metric] = true
	}
	return ordered(v.known, names)
}

func (v *view) proofPart() part {
	p := part{title: "The proof", id: "proof"}
	claims := v.claims()
	if len(claims) == 0 {
		p.blocks = []Block{{Text: "No proof was recorded.", Tone: Doubt}}
		return p
	}
	p.blocks = []Block{{Text: "nettoll sent packets through the measured networks before the first block and after the " +
		"last block of every generation."}}
	for _, c := range claims {
		it := item{text: capital(c.text()) + "."}
		if c.broken != nil {
			it = item{text: "Proof " + c.text() + ".", tone: Bad, sub: c.broken}
			if more := len(it.sub) - 2*mostWarnings; more > 0 {
				it.sub = append(slices.Clone(it.sub[:2*mostWarnings]), fmt.Sprintf("and %d more", more))
			}
		}
		p.lists = append(p.lists, it)
	}
	return p
}

// environmentPart is what the run was measured on.
func (v *view) environmentPart() part {
	p := part{title: "The environment", id: "environment"}
	p.tables = append(p.tables, Block{Table: v.stacksTable()})
	all := map[string]any{}
	maps.Copy(all, v.run.Facts)
	for _, f := range v.a.Facts {
		all[f.Key] = f.Value
	}
	for k, x := range v.run.Versions {
		all[k] = x
	}
	left, granted := part{title: "Left out"}, map[string]any{}
	t := &Table{Caption: "Machine and kernel", Columns: []Column{{"fact", false}, {"value", false}}}
	for _, key := range slices.SortedFunc(maps.Keys(all), func(x, y string) int {
		return cmp.Or(cmp.Compare(factRank(x), factRank(y)), cmp.Compare(x, y))
	}) {
		x := all[key]
		if strings.HasPrefix(key, "sockets of ") {
			if m, ok := plainJSON(x).(map[string]any); ok {
				maps.Copy(granted, m)
				continue
			}
		}
		if list, ok := plainJSON(x).([]any); ok && key == "left_out" {
			for _, o := range list {
				left.lists = append(left.lists, item{text: omission(o)})
			}
			continue
		}
		text := flat(x)
		if s, ok := x.(float64); ok && key == "setup_time" {
			text = measure.Format(s, measure.UnitSecond)
		}
		t.Rows = append(t.Rows, []Field{{Text: factLabel(key)}, {Text: text}})
	}
	for _, of := range []struct {
		key   string
		value func(*measure.Cell) string
	}{
		{"affinity", func(c *measure.Cell) string { return c.Affinity }},
		{"address family", func(c *measure.Cell) string { return c.Family }},
		{"runtime", func(c *measure.Cell) string { return c.Part("runtime") }},
	} {
		if text := v.each(of.value); text != "" {
			t.Rows = append(t.Rows, []Field{{Text: of.key}, {Text: text}})
		}
	}
	p.parts = append(p.parts, part{
		folded: true, title: fmt.Sprintf("Machine and kernel: %s", count(len(t.Rows), "fact", "facts")),
		tables: []Block{{Table: t}},
	})
	if len(granted) > 0 {
		p.parts = append(p.parts, part{
			title: "Sockets: what the kernel granted", folded: true, tables: []Block{{Table: v.socketTable(granted)}},
		})
	}
	if left.lists != nil {
		p.parts = append(p.parts, left)
	}
	p.blocks = []Block{{Text: cmp.Or(v.circumstances(), "No facts about the machine were recorded.")}}
	return p
}

// stacksTable says what each stack is made of.
func (v *view) stacksTable() *Table {
	type of struct {
		kind  string
		value func(*measure.Cell) string
	}
	var kinds []of
	for _, kind := range v.run.Kinds() {
		kinds = append(kinds, of{kind, func(c *measure.Cell) string { return c.Part(kind) }})
	}
	kinds = append(kinds, of{"implementation", func(c *measure.Cell) string {
		var list []string
		for _, by := range slices.Sorted(maps.Values(c.Implementation)) {
			if !slices.Contains(list, by) {
				list = append(list, by)
			}
		}
		return strings.Join(list, ", ")
	}})
	kinds = slices.DeleteFunc(kinds, func(k of) bool {
		return !slices.ContainsFunc(v.run.Cells, func(c measure.Cell) bool {
			return k.value(&c) != "" && k.value(&c) != "none"
		})
	})
	t := &Table{Caption: "Stacks", Columns: []Column{{"stack", false}}}
	for _, k := range kinds {
		t.Columns = append(t.Columns, Column{k.kind, false})
	}
	seen := map[string]bool{}
	for i := range v.run.Cells {
		c := &v.run.Cells[i]
		row := []Field{{Text: name(c)}}
		for _, k := range kinds {
			row = append(row, Field{Text: printable(k.value(c))})
		}
		if key := fmt.Sprint(row); !seen[key] {
			seen[key] = true
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// factRank puts first what people look for first.
func factRank(key string) int {
	first := []string{
		"nettoll", "kernel", "kernel_build", "arch", "cpu", "cpus", "cpus_sources", "cpus_sinks", "mtu", "underlay",
		"congestion_control",
	}
	if i := slices.Index(first, key); i >= 0 {
		return i
	}
	return len(first)
}

// factLabel is what people call a fact.
func factLabel(key string) string {
	text := " " + strings.ReplaceAll(printable(key), "_", " ") + " "
	for _, w := range []string{"cpu", "mtu", "mss", "smt", "rps", "bpf"} {
		text = strings.ReplaceAll(text, " "+w+" ", " "+strings.ToUpper(w)+" ")
	}
	text = strings.ReplaceAll(text, " cpus ", " CPUs ")
	return strings.TrimSpace(text)
}

// plainJSON is a value as a JSON decoder has it, whatever Go type it came in.
func plainJSON(x any) any {
	switch x.(type) {
	case nil, string, bool, float64:
		return x
	}
	b, err := json.Marshal(x)
	if err != nil {
		return fmt.Sprint(x)
	}
	var y any
	if json.Unmarshal(b, &y) != nil {
		return string(b)
	}
	return y
}

// flat writes any value as a line.
func flat(x any) string { return flatJSON(plainJSON(x)) }

func flatJSON(x any) string {
	switch x := x.(type) {
	case nil:
		return "–"
	case string:
		return printable(x)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case []any:
		var list []string
		for _, y := range x {
			list = append(list, flatJSON(y))
		}
		return strings.Join(list, ", ")
	case map[string]any:
		var list []string
		for _, k := range slices.Sorted(maps.Keys(x)) {
			list = append(list, factLabel(k)+": "+flatJSON(x[k]))
		}
		return strings.Join(list, "; ")
	default:
		return printable(fmt.Sprint(x))
	}
}

// omission says what was left out, and why.
func omission(x any) string {
	if m, ok := x.(map[string]any); ok && len(m) == 2 && m["what"] != nil && m["reason"] != nil {
		return flat(m["what"]) + ": " + flat(m["reason"])
	}
	return flat(x)
}

// socketTable shows what the sockets were granted: by workload and end, with the cells only where these differ. The
// keys are a cell's id and "source" or "sink".
func (v *view) socketTable(granted map[string]any) *Table {
	workloads := make(map[string]string, len(v.run.Cells))
	for i := range v.run.Cells {
		c := &v.run.Cells[i]
		workloads[c.ID] = load(c)
	}
	type alike struct {
		whose, facts string
		cells        []string
		of           map[string]any
	}
	var rows []*alike
	variants, columns := map[string]int{}, map[string]bool{}
	for _, who := range slices.Sorted(maps.Keys(granted)) {
		of, ok := granted[who].(map[string]any)
		if !ok {
			of = map[string]any{"granted": granted[who]}
		}
		for k := range of {
			columns[k] = true
		}
		cell, end := who, ""
		if i := strings.LastIndexByte(who, ' '); i > 0 {
			cell, end = who[:i], who[i:]
		}
		whose := cmp.Or(workloads[cell], cell) + end
		facts := flat(of)
		i := slices.IndexFunc(rows, func(r *alike) bool { return r.whose == whose && r.facts == facts })
		if i < 0 {
			i = len(rows)
			rows = append(rows, &alike{whose: whose, facts: facts, of: of})
			variants[whose]++
		}
		rows[i].cells = append(rows[i].cells, cell)
	}
	names := slices.Sorted(maps.Keys(columns))
	t := &Table{Columns: []Column{{"sockets of", false}, {"cells", false}}}
	for _, k := range names {
		t.Columns = append(t.Columns, Column{factLabel(k), true})
	}
	for _, r := range rows {
		cells := "all " + strconv.Itoa(len(r.cells))
		if len(r.cells) == 1 {
			cells = "1"
		}
		if variants[r.whose] > 1 {
			cells = printable(strings.Join(r.cells, ", "))
		}
		row := []Field{{Text: printable(r.whose)}, {Text: cells}}
		for _, k := range names {
			row = append(row, Field{Text: flat(r.of[k])})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// methodPart says how the run was measured, and what the words mean.
func (v *view) methodPart() part {
	d := v.run.Design
	p := part{title: "How it was measured", id: "method"}
	asked := "at least " + count(d.Generations, "generation", "generations") + ", at most " + duration(d.Time) +
		" of measuring"
	if d.Precision > 0 {
		asked += ", until the half-width of every interval is " + strconv.FormatFloat(100*d.Precision, 'g', 3, 64) + " %"
	}
	p.blocks = []Block{
		{Text: "All networks exist at the same time. A block visits every cell (a stack under a workload) once, in a new " +
			"random order; one visit is a trial. A ratio compares two trials of the same block, so drift that is slower than " +
			"a block cancels out. Each generation rebuilds every network, process and socket."},
		{Text: fmt.Sprintf("Requested: %s. The order, ports and MAC addresses come from seed %d.", asked, d.Seed)},
	}
	if lengths := v.trialLengths(); lengths != "" {
		p.blocks = append(p.blocks, Block{Text: "Trial length: " + lengths + "."})
	}
	p.tables = []Block{{Table: &Table{
		Caption: "Words", Columns: []Column{{"word", false}, {"meaning", false}},
		Rows: [][]Field{
			{{Text: "baseline"}, {Text: "the cell with which its group (same workload, placement and pairs) is compared; " +
				"“loopback” is the network “host” on one host"}},
			{{Text: "twin, floor"}, {Text: "a twin is a second copy of the baseline, built and measured like any other cell. " +
				"The floor is the farther end of its interval: equal stacks differ by that much, so no smaller difference counts"}},
			{{Text: "change"}, {Text: "the ratio of a cell to its baseline: the median over the blocks of each generation, " +
				"then the mean over generations, on a logarithmic scale. Shares and counts, which are often 0, are compared by " +
				"difference"}},
			{{Text: "95 % interval"}, {Text: "Student's t over generations, which are independent; computed at an error rate " +
				"of 4 %, because stopping when the result looks precise costs a point of coverage"}},
			{{Text: "faster, slower, higher, lower"}, {Text: "the interval, widened for the number of comparisons (Holm), " +
				"excludes no change, and the change is larger than the floor"}},
			{
				{Text: "no difference above the floor"},
				{Text: "the interval excludes a change larger than the floor plus the requested precision"},
			},
			{{Text: "not precise enough"}, {Text: "inconclusive: the interval allows both; measure for longer"}},
		},
	}}}
	return p
}

// trialLengths lists how long a trial of each workload is.
func (v *view) trialLengths() string {
	var order []string
	lengths := map[string][]float64{}
	for i := range v.run.Cells {
		c := &v.run.Cells[i]
		s, ok := v.run.Design.TrialSeconds[c.ID]
		if !ok || !(s > 0) || math.IsInf(s, 0) {
			continue
		}
		what := load(c)
		if _, ok := lengths[what]; !ok {
			order = append(order, what)
		}
		if !slices.Contains(lengths[what], s) {
			lengths[what] = append(lengths[what], s)
		}
	}
	for i, what := range order {
		slices.Sort(lengths[what])
		var list []string
		for _, s := range lengths[what] {
			list = append(list, measure.Format(s, measure.UnitSecond))
		}
		order[i] = what + " " + strings.Join(list, ", ")
	}
	return strings.Join(order, "; ")
}

// experimentPart is the experiment as given, or as resolved if there was no file.
func (v *view) experimentPart() part {
	p := part{title: "The experiment", id: "experiment", folded: true, code: v.run.Source}
	if p.code == "" && len(v.run.Experiment) > 0 {
		var b bytes.Buffer
		if json.Indent(&b, v.run.Experiment, "", "  ") == nil {
			p.code = b.String()
		} else {
			p.code = string(v.run.Experiment)
		}
	}
	if p.code == "" {
		p.folded, p.blocks = false, []Block{{Text: "The experiment was not recorded.", Tone: Doubt}}
	}
	return p
}
