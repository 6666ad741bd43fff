package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report/figure"
)

// A curve is what a parameter does: one of the workload or the number of pairs to every stack, over groups that are
// equal in all else, or one of the stacks to those that are equal in all else, within a group.
type curve struct {
	param   string // "share", "pairs", "rules"
	unit    string // of its values, as they are written
	heading string // what all points have in common
	points  []curvePoint
	metrics []measure.Metric // the primary one, and p99 beside a median of latency
	stacks  []curveStack     // the baseline first
}

type curvePoint struct {
	x float64
	g *group
}

// curveStack is one line of a curve.
type curveStack struct {
	charted
	cells []*measure.Cell // by point; nil where there is none
}

// fewestPoints is how many values a parameter has at least where its curve is drawn: two are a change, which the tables
// have.
const fewestPoints = 3

// pairsParam is what the number of pairs is called as a parameter.
const pairsParam = "pairs"

// curves finds all of a run.
func (v *view) curves() []curve {
	list := v.loadCurves()
	for _, g := range v.groups {
		list = append(list, g.stackCurves()...)
	}
	for i := range list {
		c := &list[i]
		c.metrics = []measure.Metric{c.points[0].g.primary}
		if prefix, ok := strings.CutSuffix(c.metrics[0].Name, "latency_p50"); ok {
			p99, _ := v.known.Lookup(prefix + "latency_p99")
			c.metrics = append(c.metrics, p99)
		}
		c.stacks = slices.DeleteFunc(c.stacks, func(s curveStack) bool { return !c.has(s, c.metrics[0]) })
		c.metrics = slices.DeleteFunc(c.metrics, func(m measure.Metric) bool {
			return !slices.ContainsFunc(c.stacks, func(s curveStack) bool { return c.has(s, m) })
		})
	}
	return slices.DeleteFunc(list, func(c curve) bool { return len(c.stacks) == 0 })
}

// loadCurves finds those of the workloads' parameters and of the number of pairs, in the order of the groups.
func (v *view) loadCurves() []curve {
	var list []curve
	byKey := map[string]int{}
	for _, g := range v.groups {
		c := g.one()
		values := append([]string{pairsParam + " " + strconv.Itoa(c.Pairs)}, params(c)...)
		for i, one := range values {
			param, text, _ := strings.Cut(one, " ")
			x, unit, ok := numeric(text)
			if !ok {
				continue
			}
			rest := slices.Delete(slices.Clone(values), i, i+1)
			key := strings.Join(append(rest, param, unit, c.Workload, c.Placement, strconv.Itoa(c.Hosts), c.Family, c.Affinity,
				c.Primary, mixedWith(c)), "\x00")
			at, known := byKey[key]
			if !known {
				at = len(list)
				byKey[key] = at
				list = append(list, curve{param: param, unit: unit, heading: strings.Replace(title(c, param), "  ", ": ", 1)})
			}
			list[at].points = append(list[at].points, curvePoint{x, g})
		}
	}
	for i := range list {
		c := &list[i]
		c.sort()
		for at, p := range c.points {
			for j, cell := range p.g.cells {
				c.put(at, cell, name(cell), j)
			}
		}
		slices.SortStableFunc(c.stacks, func(a, b curveStack) int { return cmp.Compare(a.series, b.series) })
	}
	return slices.DeleteFunc(list, func(c curve) bool { return len(c.points) < fewestPoints })
}

// stackCurves finds those of the parameters of a group's stacks: "rules" of bridge+nftables(rules=10), (rules=100) and
// (rules=1000).
func (g *group) stackCurves() []curve {
	type value struct {
		x     float64
		stack string // without the parameter
		cell  *measure.Cell
	}
	found := map[[2]string][]value{} // by parameter and unit
	var order [][2]string
	put := func(key [2]string, v value) {
		if found[key] == nil {
			order = append(order, key)
		}
		found[key] = append(found[key], v)
	}
	for _, cell := range g.compared() {
		for _, p := range numbers(cell) {
			if !p.standard {
				put([2]string{p.name, p.unit}, value{p.x, p.rest, cell})
			}
		}
	}
	for _, key := range order { // what has the default does not say so in its name
		for _, cell := range g.cells {
			for _, p := range numbers(cell) {
				same := func(f value) bool { return f.stack == p.rest && f.cell != cell }
				if p.standard && [2]string{p.name, p.unit} == key && !cell.Twin && slices.ContainsFunc(found[key], same) {
					put(key, value{p.x, p.rest, cell})
				}
			}
		}
	}
	var list []curve
	for _, key := range order {
		c := curve{param: key[0], unit: key[1], heading: g.heading()}
		for _, f := range found[key] {
			c.points = append(c.points, curvePoint{f.x, g})
		}
		c.sort()
		// which is a point of that
		if g.base != nil && !slices.ContainsFunc(found[key], func(f value) bool { return f.stack == name(g.base) }) {
			for at := range c.points {
				c.put(at, g.base, name(g.base), 0)
			}
		}
		for _, f := range found[key] {
			at := slices.IndexFunc(c.points, func(p curvePoint) bool { return p.x == f.x })
			c.put(at, f.cell, f.stack, len(c.stacks))
		}
		c.stacks = slices.DeleteFunc(c.stacks, func(s curveStack) bool { // those of other values, too
			return len(slices.DeleteFunc(slices.Clone(s.cells), func(cell *measure.Cell) bool {
				return cell == nil
			})) < fewestPoints
		})
		if n := len(c.stacks); n > 1 || n == 1 &&
			slices.ContainsFunc(c.stacks[0].cells, func(cell *measure.Cell) bool { return cell != g.base }) {
			list = append(list, c)
		}
	}
	return list
}

// stackNumber is a parameter of a cell's stack that is a number.
type stackNumber struct {
	name, unit string
	x          float64
	standard   bool   // it has its default
	rest       string // the stack without the parameter
}

// numbers lists the parameters of a cell's stack that are numbers. A stack that has a name of its own has none.
func numbers(c *measure.Cell) []stackNumber {
	var list []stackNumber
	for i, p := range c.Parts {
		for _, param := range slices.Sorted(maps.Keys(p.Params)) {
			x, unit, ok := numeric(p.Params[param])
			if !ok || p.Label == "" {
				continue
			}
			n := stackNumber{name: param, unit: unit, x: x, standard: slices.Contains(p.Default, param), rest: name(c)}
			if !n.standard {
				n.rest = unparametrised(c, i, param)
			}
			list = append(list, n)
		}
	}
	return list
}

// unparametrised is the label of a cell's stack without a parameter of its i-th part.
func unparametrised(c *measure.Cell, i int, param string) string {
	var b strings.Builder
	for j, p := range c.Parts {
		switch {
		case p.Label == "":
		case i != j:
			b.WriteString(p.Label + strings.TrimPrefix(p.ID, p.Name))
		default:
			var rest []string
			for _, key := range slices.Sorted(maps.Keys(p.Params)) {
				if key != param && !slices.Contains(p.Default, key) {
					rest = append(rest, key+"="+p.Params[key])
				}
			}
			b.WriteString(p.Label)
			if rest != nil {
				b.WriteString("(" + strings.Join(rest, ",") + ")")
			}
		}
	}
	return printable(b.String())
}

// sort orders the points by value, each once.
func (c *curve) sort() {
	slices.SortStableFunc(c.points, func(a, b curvePoint) int { return cmp.Compare(a.x, b.x) })
	c.points = slices.CompactFunc(c.points, func(a, b curvePoint) bool { return a.x == b.x })
}

// put puts a cell at a point of a stack's line.
func (c *curve) put(at int, cell *measure.Cell, stack string, series int) {
	i := slices.IndexFunc(c.stacks, func(s curveStack) bool { return s.name == stack })
	if i < 0 {
		i = len(c.stacks)
		c.stacks = append(c.stacks, curveStack{charted{cell, stack, series}, make([]*measure.Cell, len(c.points))})
	}
	c.stacks[i].cells[at] = cell
}

// row is that of a stack at a point, nil where it has no value.
func (c *curve) row(s curveStack, at int, m measure.Metric) *measure.Row {
	if s.cells[at] == nil {
		return nil
	}
	if r := c.points[at].g.row(s.cells[at], m.Name); r != nil && !math.IsNaN(r.Value) {
		return r
	}
	return nil
}

// has says whether a stack has a value anywhere.
func (c *curve) has(s curveStack, m measure.Metric) bool {
	for at := range c.points {
		if c.row(s, at, m) != nil {
			return true
		}
	}
	return false
}

// numeric reads a value of a parameter: a share, a rate, a number or a duration (in s).
func numeric(text string) (x float64, unit string, ok bool) {
	for _, unit := range []string{"%", "/s", ""} {
		if number, cut := strings.CutSuffix(text, unit); cut {
			if x, err := strconv.ParseFloat(number, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
				return x, unit, true
			}
		}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d.Seconds(), measure.UnitSecond, true
	}
	return 0, "", false
}

// label writes a value of the parameter.
func (c *curve) label(x float64) string {
	switch c.unit {
	case "%":
		return plainNumber(x) + " %"
	case measure.UnitSecond:
		return measure.Format(x, measure.UnitSecond)
	case "/s":
		return strings.TrimSpace(measure.Format(x, "/s"))
	}
	return plainNumber(x)
}

// title names the parameter, with the unit of its values where that is not written with them.
func (c *curve) title() string {
	switch c.param {
	case "payload", "response", "message", "send-buffer", "recv-buffer":
		return c.param + ", bytes"
	}
	return printable(c.param)
}

// name is what it is about.
func (c *curve) name() string { return capital(labelOf(c.metrics[0])) + " by " + printable(c.param) }

// shown are the stacks that a figure has room for: those who are far from the baseline anywhere.
func (c *curve) shown() (list []curveStack, left int) {
	if len(c.stacks) <= mostCurves {
		return c.stacks, 0
	}
	far := func(s curveStack) float64 {
		most := -1.0
		for at, cell := range s.cells {
			if cell != nil {
				most = max(most, c.points[at].g.distance(cell))
			}
		}
		return most
	}
	by := slices.Clone(c.stacks)
	slices.SortStableFunc(by, func(a, b curveStack) int { return cmp.Compare(far(b), far(a)) })
	kept := by[:mostCurves]
	slices.SortStableFunc(kept, func(a, b curveStack) int { return cmp.Compare(a.series, b.series) })
	return kept, len(c.stacks) - mostCurves
}

// tables are what the figure shows, in numbers: one for each metric.
func (c *curve) tables() []Block {
	var list []Block
	for _, m := range c.metrics {
		t := &Table{Caption: capital(labelOf(m)), Columns: []Column{{"stack", false}}}
		for i, p := range c.points {
			text := c.label(p.x)
			if i == 0 {
				text = printable(c.param) + " " + text
			}
			t.Columns = append(t.Columns, Column{text, true})
		}
		for _, s := range c.stacks {
			row := []Field{{Text: s.name}}
			for at := range c.points {
				text := "–"
				if r := c.row(s, at, m); r != nil {
					text = number(r.Value, r.Unit)
				}
				row = append(row, Field{Text: text})
			}
			t.Rows = append(t.Rows, row)
		}
		list = append(list, Block{Table: t})
	}
	return list
}

// curvesPart has every curve, as a figure where there are figures, and in numbers.
func (v *view) curvesPart(figures []figure.Figure) (part, bool) {
	p := part{title: "Curves", id: "curves"}
	for i, c := range v.curves() {
		one := part{title: c.name() + ": " + c.heading, tables: c.tables()}
		if i < len(figures) {
			one.figures = figures[i : i+1]
		}
		p.parts = append(p.parts, one)
	}
	return p, len(p.parts) > 0
}
