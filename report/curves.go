package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/stack"
)

// A Curve shows the effect of a parameter. For a parameter of the workload, or the number of pairs, it has every stack,
// over groups that are otherwise equal. For a parameter of stacks, it has the stacks of a group that are otherwise
// equal.
type Curve struct {
	param   string // "share", "pairs", "rules"
	Unit    string // unit of its values, as they are written
	Heading string // the title of everything but the parameter
	Points  []CurvePoint
	Metrics []measure.Metric // the primary one, and the latency at load: its median, p90 and p99
	Stacks  []CurveStack     // the baseline first
	Slug    string           // the name of its figure
}

// CurvePoint is a value of the parameter, and the group of the cells at it.
type CurvePoint struct {
	X     float64
	Group *Group
}

// CurveStack is one line of a curve.
type CurveStack struct {
	Name   string
	Series int             // number of its line, which sets how it is drawn; 0 is the baseline
	Cells  []*measure.Cell // by point; nil if it has no cell there
}

// fewestPoints is the least number of values of a parameter for which a curve is drawn. Two values are only a change,
// which the tables show.
const fewestPoints = 3

// pairsParam is the name of the number of pairs as a parameter.
const pairsParam = "pairs"

// Curves returns all curves of a run.
func (v *Reading) Curves() []Curve {
	list := v.loadCurves()
	for _, g := range v.Groups {
		list = append(list, g.stackCurves()...)
	}
	for i := range list {
		c := &list[i]
		c.Metrics = []measure.Metric{c.Points[0].Group.Primary}
		for _, name := range c.latencies() {
			if m, known := v.known.Lookup(name); known && m != c.Metrics[0] {
				c.Metrics = append(c.Metrics, m)
			}
		}
		c.Stacks = slices.DeleteFunc(c.Stacks, func(s CurveStack) bool { return !c.has(s, c.Metrics[0]) })
		c.Metrics = slices.DeleteFunc(c.Metrics, func(m measure.Metric) bool {
			return !slices.ContainsFunc(c.Stacks, func(s CurveStack) bool { return c.has(s, m) })
		})
	}
	list = slices.DeleteFunc(list, func(c Curve) bool { return len(c.Stacks) == 0 })
	for i, c := range list {
		list[i].Slug = fmt.Sprintf("curve-%02d-%.20s-%.60s", i+1, c.param, Slug(c.Heading))
	}
	return list
}

// latencies returns the metrics that show how latency grows. They are those of a curve whose primary metric is a median
// of latency, or of a curve over loads that has such a median.
func (c *Curve) latencies() []string {
	prefix, ok := strings.CutSuffix(c.Metrics[0].Name, "latency_p50")
	if !ok {
		if !c.ofLoad() {
			return nil
		}
		if prefix, ok = "", c.measured("latency_p50"); !ok {
			prefix = "oneway_" // left out later if there is none
		}
	}
	return []string{prefix + "latency_p50", prefix + "latency_p90", prefix + "latency_p99"}
}

// ofLoad reports whether the parameter is the load.
func (c *Curve) ofLoad() bool { return c.param == "share" || c.param == "rate" }

// measured reports whether any stack has a metric.
func (c *Curve) measured(name string) bool {
	return slices.ContainsFunc(c.Stacks, func(s CurveStack) bool { return c.has(s, measure.Metric{Name: name}) })
}

// Overloaded is the mark of a point that lost more than [mostLost].
const Overloaded = "overloaded"

// mostLost is the share of its packets that a path may lose without being overloaded.
const mostLost = 0.01

// Overloaded reports whether a stack lost so many packets at a point that its latency, which leaves out lost packets,
// says little. Curves that show neither a load nor a latency have no such point.
func (c *Curve) Overloaded(s CurveStack, at int) bool {
	latency := func(m measure.Metric) bool { return m.Kind == measure.KindQuantile }
	if !c.ofLoad() && !slices.ContainsFunc(c.Metrics, latency) {
		return false
	}
	r := c.Row(s, at, measure.Metric{Name: "loss"})
	return r != nil && r.Value > mostLost
}

// Beside returns the text after the value of a stack at a point: ", overloaded", or "".
func (c *Curve) Beside(s CurveStack, at int) string {
	if c.Overloaded(s, at) {
		return ", " + Overloaded
	}
	return ""
}

// loadCurves returns the curves over parameters of workloads and over the number of pairs, in the order of the groups.
func (v *Reading) loadCurves() []Curve {
	var list []Curve
	byKey := map[string]int{}
	for _, g := range v.Groups {
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
				list = append(list, Curve{param: param, Unit: unit, Heading: strings.Replace(title(c, param), "  ", ": ", 1)})
			}
			list[at].Points = append(list[at].Points, CurvePoint{x, g})
		}
	}
	for i := range list {
		c := &list[i]
		c.sort()
		for at, p := range c.Points {
			for j, cell := range p.Group.Cells {
				c.put(at, cell, StackName(cell), j)
			}
		}
		slices.SortStableFunc(c.Stacks, func(a, b CurveStack) int { return cmp.Compare(a.Series, b.Series) })
	}
	return slices.DeleteFunc(list, func(c Curve) bool { return len(c.Points) < fewestPoints })
}

// stackCurves returns the curves over parameters of a group's stacks: "rules" of bridge+nftables(rules=10), (rules=100)
// and (rules=1000).
func (g *Group) stackCurves() []Curve {
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
	for _, cell := range g.Compared() {
		for _, p := range numbers(cell) {
			if !p.standard {
				put([2]string{p.name, p.unit}, value{p.x, p.rest, cell})
			}
		}
	}
	for _, key := range order { // a stack whose parameter has its default belongs to the curve, too
		for _, cell := range g.Cells {
			for _, p := range numbers(cell) {
				same := func(f value) bool { return f.stack == p.rest && f.cell != cell }
				if p.standard && [2]string{p.name, p.unit} == key && !cell.Twin && slices.ContainsFunc(found[key], same) {
					put(key, value{p.x, p.rest, cell})
				}
			}
		}
	}
	var list []Curve
	for _, key := range order {
		c := Curve{param: key[0], Unit: key[1], Heading: g.Heading()}
		for _, f := range found[key] {
			c.Points = append(c.Points, CurvePoint{f.x, g})
		}
		c.sort()
		// The baseline is a line of its own, unless it is a point of another line.
		if g.Base != nil && !slices.ContainsFunc(found[key], func(f value) bool { return f.stack == StackName(g.Base) }) {
			for at := range c.Points {
				c.put(at, g.Base, StackName(g.Base), 0)
			}
		}
		for _, f := range found[key] {
			at := slices.IndexFunc(c.Points, func(p CurvePoint) bool { return p.X == f.x })
			c.put(at, f.cell, f.stack, len(c.Stacks))
		}
		c.Stacks = slices.DeleteFunc(c.Stacks, func(s CurveStack) bool { // has other values of the parameter
			return len(slices.DeleteFunc(slices.Clone(s.Cells), func(cell *measure.Cell) bool {
				return cell == nil
			})) < fewestPoints
		})
		if n := len(c.Stacks); n > 1 || n == 1 &&
			slices.ContainsFunc(c.Stacks[0].Cells, func(cell *measure.Cell) bool { return cell != g.Base }) {
			list = append(list, c)
		}
	}
	return list
}

// stackNumber is a numeric parameter of a cell's stack.
type stackNumber struct {
	name, unit string
	x          float64
	standard   bool   // the parameter has its default
	rest       string // the stack without the parameter
}

// numbers returns the numeric parameters of a cell's stack. A stack with a name of its own has none.
func numbers(c *measure.Cell) []stackNumber {
	var list []stackNumber
	for i, p := range c.Parts {
		for _, param := range slices.Sorted(maps.Keys(p.Params)) {
			x, unit, ok := numeric(p.Params[param])
			if !ok || p.Label == "" {
				continue
			}
			n := stackNumber{name: param, unit: unit, x: x, standard: slices.Contains(p.Default, param), rest: StackName(c)}
			if !n.standard {
				n.rest = unparametrised(c, i, param)
			}
			list = append(list, n)
		}
	}
	return list
}

// unparametrised returns the label of a cell's stack without one parameter of its i-th part.
func unparametrised(c *measure.Cell, i int, param string) string {
	var b strings.Builder
	for j, p := range c.Parts {
		without := ""
		if i == j {
			without = param
		}
		if p.Label != "" {
			b.WriteString(stack.Relabel(p.ID, p.Label, without))
		}
	}
	return Printable(b.String())
}

// sort sorts the points by value and removes duplicates.
func (c *Curve) sort() {
	slices.SortStableFunc(c.Points, func(a, b CurvePoint) int { return cmp.Compare(a.X, b.X) })
	c.Points = slices.CompactFunc(c.Points, func(a, b CurvePoint) bool { return a.X == b.X })
}

// put places a cell at a point of a stack's line.
func (c *Curve) put(at int, cell *measure.Cell, stack string, series int) {
	i := slices.IndexFunc(c.Stacks, func(s CurveStack) bool { return s.Name == stack })
	if i < 0 {
		i = len(c.Stacks)
		c.Stacks = append(c.Stacks, CurveStack{stack, series, make([]*measure.Cell, len(c.Points))})
	}
	c.Stacks[i].Cells[at] = cell
}

// Row returns the row of a stack at a point in a metric; nil if it has no value.
func (c *Curve) Row(s CurveStack, at int, m measure.Metric) *measure.Row {
	if s.Cells[at] == nil {
		return nil
	}
	if r := c.Points[at].Group.Row(s.Cells[at], m.Name); r != nil && !math.IsNaN(r.Value) {
		return r
	}
	return nil
}

// has reports whether a stack has a value of a metric at any point.
func (c *Curve) has(s CurveStack, m measure.Metric) bool {
	for at := range c.Points {
		if c.Row(s, at, m) != nil {
			return true
		}
	}
	return false
}

// numeric returns the number in a value of a parameter: a share, a rate, a number or a duration (in s).
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

// Label returns a value of the parameter as text.
func (c *Curve) Label(x float64) string {
	switch c.Unit {
	case "%":
		return PlainNumber(x) + " %"
	case measure.UnitSecond:
		return measure.Format(x, measure.UnitSecond)
	case "/s":
		return strings.TrimSpace(measure.Format(x, "/s"))
	}
	return PlainNumber(x)
}

// Title returns the name of the parameter, with the unit if its values are written without one.
func (c *Curve) Title() string {
	switch c.param {
	case "payload", "response", "message", "send-buffer", "recv-buffer":
		return c.param + ", bytes"
	}
	return Printable(c.param)
}

// Name returns the name of the curve: "Latency p50, p90 and p99 by share".
func (c *Curve) Name() string {
	var b strings.Builder
	said := ""
	for i, m := range c.Metrics {
		l := Label(m)
		what := l[:strings.LastIndexByte(l, ' ')+1]
		switch {
		case i == 0:
		case i == len(c.Metrics)-1:
			b.WriteString(" and ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(strings.TrimPrefix(l, said))
		said = what
	}
	return Capital(b.String()) + " by " + Printable(c.param)
}

// Tables returns the numbers of the figure: one table for each metric.
func (c *Curve) Tables() []Block {
	var list []Block
	for _, m := range c.Metrics {
		t := &Table{Caption: Capital(Label(m)), Columns: []Column{{"stack", false}}}
		for i, p := range c.Points {
			text := c.Label(p.X)
			if i == 0 {
				text = Printable(c.param) + " " + text
			}
			t.Columns = append(t.Columns, Column{text, true})
		}
		for _, s := range c.Stacks {
			row := []Field{{Text: s.Name}}
			for at := range c.Points {
				f := Field{Text: "–"}
				if r := c.Row(s, at, m); r != nil {
					f.Text = Number(r.Value, r.Unit) + c.Beside(s, at)
				}
				if c.Overloaded(s, at) {
					f.Tone = Bad
				}
				row = append(row, f)
			}
			t.Rows = append(t.Rows, row)
		}
		list = append(list, Block{Table: t})
	}
	return list
}

// curvesPart returns the part with every curve, as a figure and in numbers.
func (v *Reading) curvesPart() (Part, bool) {
	p := Part{Title: "Curves", ID: "curves"}
	for _, c := range v.Curves() {
		p.Parts = append(p.Parts, Part{Title: c.Name() + ": " + c.Heading, Figures: c.Slug, Tables: c.Tables()})
	}
	return p, len(p.Parts) > 0
}
