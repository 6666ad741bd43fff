package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report/figure"
)

// Options are those of the views for people. Colour, width and All are of [Text] alone.
type Options struct {
	Color bool // with the escape sequences of terminals
	Width int  // columns; 0 is 100. Names and words that are longer stand out of it
	All   bool // every metric of every cell, and every warning; else the important ones

	Sections []Section // shown after the answer, by all views for people
}

const usualWidth = 100

// Text writes a run for people: first what the stacks cost, in a sentence each; then a table for each group of cells
// with the noise floor; and how much was measured, what failed, what is doubtful and what was proved. It ends in a
// newline and no line ends in a space.
func Text(w io.Writer, run measure.Run, a measure.Analysis, o Options) error {
	v := newView(run, a, o)
	for _, s := range standing(run, a) {
		v.prose("✗ ", "  ", s, bad)
	}
	v.answer()
	for _, s := range o.Sections {
		if !s.Detail || o.All {
			v.section(s)
		}
	}
	for _, c := range v.curves() {
		v.section(Section{Title: c.name() + ": " + c.heading, Blocks: c.tables()})
	}
	for _, g := range v.groups {
		v.group(g)
	}
	if s, ok := v.probeSection(); ok {
		v.section(s)
	}
	if s, ok := v.labSection(v.all); ok {
		v.section(s)
	}
	v.extent()
	v.failures()
	v.warnings()
	v.proofs()
	if _, err := io.WriteString(w, v.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

type view struct {
	page
	run    measure.Run
	known  measure.Vocabulary // of the run
	a      measure.Analysis
	all    bool
	groups []*group
	probed map[string]map[string]*measure.Row // by cell and metric, of cells with a probe, which are in no group
	failed map[string]measure.FailedCell
}

// group is the cells that share a baseline and a floor.
type group struct {
	cells   []*measure.Cell // without twins, the baseline first
	base    *measure.Cell   // nil if there is none
	baseAs  string          // what it is called
	twins   int
	twinned []*measure.Cell // the twins
	slug    string          // what its figures are called
	primary measure.Metric
	rows    map[string]map[string]*measure.Row // by cell and metric, twins too
	where   string                             // "on one host", and what tells it from other groups
}

func newView(run measure.Run, a measure.Analysis, o Options) *view {
	if o.Width <= 0 {
		o.Width = usualWidth
	}
	v := &view{
		page: page{color: o.Color, width: o.Width}, run: run, known: run.Vocabulary(), a: a, all: o.All,
		failed: map[string]measure.FailedCell{}, probed: map[string]map[string]*measure.Row{},
	}
	for _, f := range a.Failed {
		v.failed[f.Cell] = f
	}
	byName := map[string]*group{}
	for i := range run.Cells {
		c := &run.Cells[i]
		if c.Probe != "" {
			v.probed[c.ID] = map[string]*measure.Row{}
			continue
		}
		g := byName[c.Group]
		if g == nil {
			g = &group{rows: map[string]map[string]*measure.Row{}}
			byName[c.Group] = g
			v.groups = append(v.groups, g)
			g.primary, _ = v.known.Lookup(c.Primary)
		}
		switch {
		case c.Twin:
			g.twins++
			g.twinned = append(g.twinned, c)
		case c.Baseline == "" && g.base == nil:
			g.base, g.baseAs = c, name(c)
			g.cells = slices.Insert(g.cells, 0, c)
		default:
			g.cells = append(g.cells, c)
		}
	}
	for i := range a.Rows {
		r := &a.Rows[i]
		if rows := v.probed[r.Cell.ID]; rows != nil {
			rows[r.Metric] = r
			continue
		}
		g := byName[r.Cell.Group]
		if g == nil {
			continue
		}
		if g.rows[r.Cell.ID] == nil {
			g.rows[r.Cell.ID] = map[string]*measure.Row{}
		}
		g.rows[r.Cell.ID][r.Metric] = r
	}
	v.groups = slices.DeleteFunc(v.groups, func(g *group) bool { return len(g.cells) == 0 })
	for i, g := range v.groups {
		g.where = v.where(g)
		g.slug = fmt.Sprintf("%02d-%.60s", i+1, figure.Slug(g.title()))
	}
	return v
}

// one is a cell of the group that stands for all: they differ in their stacks only.
func (g *group) one() *measure.Cell { return g.cells[0] }

func (g *group) row(c *measure.Cell, metric string) *measure.Row { return g.rows[c.ID][metric] }

// compared lists the cells that are measured against the baseline.
func (g *group) compared() []*measure.Cell {
	return slices.DeleteFunc(slices.Clone(g.cells), func(c *measure.Cell) bool { return c == g.base })
}

// floor is that of a metric, NaN if not known.
func (g *group) floor(metric string) float64 {
	for _, rows := range g.rows {
		if r := rows[metric]; r != nil && !math.IsNaN(r.Floor) {
			return r.Floor
		}
	}
	return math.NaN()
}

// group writes the table of a group.
func (v *view) group(g *group) {
	v.blank()
	v.title(g)
	rows := v.primary(g, false)
	if width(rows, wide) > v.width {
		rows = v.primary(g, true)
	}
	v.table(rows)
	v.floorLine(g)
	v.implementations(g)
	v.limits(g)
	if v.all {
		v.everything(g)
	} else {
		v.secondary(g)
	}
}

func (v *view) title(g *group) {
	text := g.title()
	if wide(text) > v.width {
		v.prose("", strings.Repeat(" ", indent), text, bold)
		return
	}
	v.line(text, bold)
}

// title is the heading of a group: "udp-rr  payload 64, mode wait · same host · 1 pair".
func (g *group) title() string { return title(g.one(), "") }

// title is what a cell has in common with all of its group, without one of its parameters.
func title(c *measure.Cell, without string) string {
	text := printable(c.Workload)
	list := slices.DeleteFunc(spoken(c), func(p string) bool { return without != "" && strings.HasPrefix(p, without+" ") })
	if len(list) > 0 {
		text += "  " + strings.Join(list, ", ")
	}
	text += " · " + printable(strings.ReplaceAll(c.Placement, "-", " "))
	if without != pairsParam {
		text += " · " + pairsOf(c)
	}
	if b := mixedWith(c); b != "" {
		text += " · " + b
	}
	if c.Family != "ipv4" && c.Family != "" {
		text += " · " + printable(c.Family)
	}
	if c.Affinity != "split" && c.Affinity != "" {
		text += " · affinity " + printable(c.Affinity)
	}
	return text
}

// heading is the title as part of a sentence.
func (g *group) heading() string { return strings.Replace(g.title(), "  ", ": ", 1) }

// over is the heading of the columns of changes.
func (g *group) over() string {
	const longest = 12
	if g.base == nil || wide(g.baseAs) > longest {
		return "over baseline"
	}
	return "over " + g.baseAs
}

// primary makes the rows of the primary metric.
func (v *view) primary(g *group, short bool) [][]field {
	rows := [][]field{{
		{}, {labelOf(g.primary), dim, true}, {g.over(), dim, true}, {"95 % interval", dim, false}, {"verdict", dim, false},
	}}
	if short {
		rows[0][2].text = "change"
	}
	for _, c := range g.cells {
		r := g.row(c, g.primary.Name)
		row := []field{
			{text: name(c)},
			{text: "–", right: true},
			{right: true},
			{},
			verdict(measure.NotPrecise, g.primary, short),
		}
		if r != nil {
			point, interval := change(r)
			row[1].text = number(r.Value, r.Unit)
			row[2].text, row[3].text = point, interval
			row[4] = judged(r, g.primary, short)
		} else if c == g.base {
			row[4] = verdict(measure.IsBaseline, g.primary, short)
		}
		rows = append(rows, row)
	}
	return rows
}

// verdict is the verdict in words.
func verdict(v measure.Verdict, m measure.Metric, short bool) field {
	f := field{text: string(v)}
	switch v {
	case measure.Faster:
		f.style = good
	case measure.Slower, measure.HasFailed:
		f.style = bad
	case measure.Higher, measure.Lower:
		switch m.Better {
		case measure.HigherBetter:
			f.style = bad
			if v == measure.Higher {
				f.style = good
			}
		case measure.LowerBetter:
			f.style = good
			if v == measure.Higher {
				f.style = bad
			}
		}
	case measure.TooFew:
		f.style = doubt
		if short {
			f.text = "too few"
		}
	case measure.NotPrecise:
		f.style = doubt
		if short {
			f.text = "not precise"
		}
	case measure.NoDifference:
		if short {
			f.text = "no difference"
		}
	case measure.IsBaseline, measure.IsTwin, measure.IsProbed:
		f.style = dim
	default:
		f.text = printable(f.text)
	}
	return f
}

// floorLine writes what the noise floor of the primary metric is.
func (v *view) floorLine(g *group) {
	space := strings.Repeat(" ", indent)
	v.prose(space, space+space, g.floorText(), dim)
}

// floorText says what the noise floor of the primary metric is, or why there is none.
func (g *group) floorText() string {
	m := margin(g.floor(g.primary.Name), g.primary)
	switch {
	case m != "":
		return "floor " + m + " (twins of the baseline differ by no more than this)"
	case g.twins == 0:
		return "floor unknown (no twin of the baseline was measured)"
	}
	return "floor unknown (too few results from the baseline's twin)"
}

// implementations writes who does the work of a part where that is not the kernel.
func (v *view) implementations(g *group) {
	for _, text := range g.implementationTexts() {
		space := strings.Repeat(" ", indent)
		v.prose(space, space+space, text, dim)
	}
}

func (g *group) implementationTexts() []string {
	said := func(c *measure.Cell) string {
		var list []string
		for _, kind := range slices.Sorted(maps.Keys(c.Implementation)) {
			if by := c.Implementation[kind]; by != "kernel" {
				list = append(list, printable(kind+" by "+by))
			}
		}
		if c.Enforced != "" {
			at := "enforced " + printable(c.Enforced)
			if i := slices.IndexFunc(list, func(s string) bool { return strings.HasPrefix(s, "filter by ") }); i >= 0 {
				list = slices.Insert(list, i+1, at)
			} else {
				list = append(list, "filter "+at)
			}
		}
		return strings.Join(list, ", ")
	}
	var texts []string
	cells := map[string][]*measure.Cell{} // of which a text is true
	for _, c := range g.cells {
		text := said(c)
		if text == "" {
			continue
		}
		if cells[text] == nil {
			texts = append(texts, text)
		}
		cells[text] = append(cells[text], c)
	}
	for i, text := range texts {
		alike := map[string]int{}
		for _, c := range cells[text] {
			alike[partsOf(name(c))]++
		}
		var names []string
		for _, c := range cells[text] {
			who := name(c)
			// What is true of all stacks of the same parts is said once.
			all := partsOf(who)
			others := slices.ContainsFunc(g.cells, func(o *measure.Cell) bool {
				return partsOf(name(o)) == all && said(o) != text
			})
			if alike[all] > 1 && !others {
				who = all
			}
			if !slices.Contains(names, who) {
				names = append(names, who)
			}
		}
		texts[i] = strings.Join(names, ", ") + ": " + text
	}
	return texts
}

// limits writes what kept the figures of the primary metric from being higher.
func (v *view) limits(g *group) {
	if text := g.limitText(); text != "" {
		space := strings.Repeat(" ", indent)
		v.prose(space, space+space, text, dim)
	}
}

// limitText says it for all cells of a group: "limited by the sender: loopback (98 % of trials); by the path: bridge
// (all trials)".
func (g *group) limitText() string {
	by := map[string][]string{}
	for _, c := range g.cells {
		r := g.row(c, g.primary.Name)
		if r == nil || r.Limit == "" {
			continue
		}
		share := "all trials"
		if r.LimitShare < 1 {
			share = fmt.Sprintf("%.0f %% of trials", 100*r.LimitShare)
		}
		by[r.Limit] = append(by[r.Limit], name(c)+" ("+share+")")
	}
	var texts []string
	for _, limit := range []string{"sender", "path", "receiver"} {
		if len(by[limit]) > 0 {
			texts = append(texts, "by the "+limit+": "+strings.Join(by[limit], ", "))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "limited " + strings.Join(texts, "; ")
}

// important lists the metrics that a table shows beside the primary one, where [group.beside] has no objection.
func important() []string {
	return []string{
		"goodput", "packet_rate", "transaction_rate", "connection_rate", "loss", "errors", "latency_mean", "latency_p50",
		"latency_p99", "oneway_latency_p50", "oneway_latency_p99",
		"jitter", "startup_delay", "stall_share",
		"cpu_user", "cpu_system", "cpu_per_packet", "cpu_per_transaction", "service_demand", "retransmits", "memory",
		"setup_time", "first_packet_latency",
	}
}

// beside says whether an important metric tells something beside the others of its group: a mean where the primary
// metric is no latency, and CPU time in the kernel and outside of it where both are known.
func (g *group) beside(metric string) bool {
	switch metric {
	case g.primary.Name:
		return false
	case "latency_mean":
		return !strings.HasPrefix(g.primary.Name, "latency_")
	case "cpu_user":
		return g.has("cpu_system")
	}
	return true
}

// has says whether a cell of the group has a metric.
func (g *group) has(metric string) bool {
	return slices.ContainsFunc(g.cells, func(c *measure.Cell) bool { return g.row(c, metric) != nil })
}

// unsaid says whether a column of zeros says nothing: errors, and what was lost of datagrams that are answered. Of
// those that are not, it is one of the figures.
func (g *group) unsaid(metric string) bool {
	return metric == "errors" || metric == "loss" && !g.has("jitter")
}

// longName is how long a name may be for columns to stand beside it: a longer one gets a line of its own where they
// need the room.
const longName = 20

// secondary writes the important metrics beside the primary one, in as many tables as the width asks for.
func (v *view) secondary(g *group) {
	var columns [][]field
	brackets := false
	for _, metric := range important() {
		if !g.beside(metric) {
			continue
		}
		column, b := g.column(metric)
		if column != nil {
			columns = append(columns, column)
			brackets = brackets || b
		}
	}
	if len(columns) == 0 {
		return
	}
	names := make([]field, 1+len(g.cells))
	for i, c := range g.cells {
		names[i+1].text = name(c)
	}
	for len(columns) > 0 {
		rows := transpose(names, columns[:1])
		n := 1
		for ; n < len(columns); n++ {
			more := transpose(names, columns[:n+1])
			if width(more, func(s string) int { return min(wide(s), longName) }) > v.width {
				break
			}
			rows = more
		}
		columns = columns[n:]
		v.blank()
		v.table(rows)
	}
	if brackets {
		space := strings.Repeat(" ", indent)
		v.prose(space, space+space, "(in brackets: no difference above its floor, or not precise enough)", dim)
	}
}

// column makes the column of a metric: values with their changes; nil where there is nothing to say. It says whether a
// change is in brackets.
func (g *group) column(metric string) (column []field, brackets bool) {
	type part struct{ value, change string }
	parts := make([]part, len(g.cells))
	styles := make([]style, len(g.cells))
	some := false
	var values int
	var about measure.Metric
	for i, c := range g.cells {
		r := g.row(c, metric)
		if r == nil || r.Verdict == measure.HasFailed {
			parts[i].value = "–"
			continue
		}
		about = r.About
		some = some || r.Value != 0 || !g.unsaid(metric) // the good case goes without saying
		parts[i].value = number(r.Value, r.Unit)
		point, _ := change(r)
		switch {
		case differing(r.Verdict):
			styles[i] = verdict(r.Verdict, r.About, false).style
		case point != "":
			point, brackets, styles[i] = "("+point+")", true, dim
		}
		parts[i].change = point
	}
	if !some {
		return nil, false
	}
	for _, p := range parts {
		values = max(values, wide(p.value))
	}
	column = []field{{text: labelOf(about), style: dim}}
	for i, p := range parts {
		text := strings.Repeat(" ", values-wide(p.value)) + p.value
		if p.change != "" {
			space := " "
			if brackets && p.change[0] != '(' {
				space = "  "
			}
			text += space + p.change
		}
		column = append(column, field{text: text, style: styles[i]})
	}
	return column, brackets
}

func transpose(names []field, columns [][]field) [][]field {
	rows := make([][]field, len(names))
	for i := range names {
		rows[i] = []field{names[i]}
		for _, c := range columns {
			rows[i] = append(rows[i], c[i])
		}
	}
	return rows
}

// everything writes every metric of each cell.
func (v *view) everything(g *group) {
	cells := g.compared()
	if len(cells) == 0 {
		cells = g.cells
	}
	for _, c := range cells {
		v.blank()
		v.line(strings.Repeat(" ", indent)+name(c), bold)
		rows := v.metrics(g, c, false)
		if width(rows, wide) > v.width {
			rows = v.metrics(g, c, true)
		}
		v.table(rows)
	}
}

func (v *view) metrics(g *group, c *measure.Cell, short bool) [][]field {
	rows := [][]field{{
		{},
		{"value", dim, true},
		{g.baseAs, dim, true},
		{"change", dim, true},
		{"95 % interval", dim, false},
		{"floor", dim, true},
		{"verdict", dim, false},
	}}
	if wide(g.baseAs) > len("baseline") {
		rows[0][2].text = "baseline"
	}
	if c == g.base {
		rows[0][2].text = ""
	}
	names := map[string]bool{}
	for metric := range g.rows[c.ID] {
		names[metric] = true
	}
	for _, metric := range ordered(v.known, names) {
		r := g.row(c, metric)
		m := r.About
		point, interval := change(r)
		row := []field{
			{text: labelOf(m)},
			{text: number(r.Value, r.Unit), right: true},
			{right: true},
			{text: point, right: true},
			{text: interval},
			{text: margin(r.Floor, m), style: dim, right: true},
			judged(r, m, short),
		}
		if g.base != nil && c != g.base {
			if b := g.row(g.base, metric); b != nil {
				row[2].text = number(b.Value, b.Unit)
			}
		}
		rows = append(rows, row)
	}
	return rows
}
