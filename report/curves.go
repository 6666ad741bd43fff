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
)

// A Curve is what a parameter does: one of the workload or the number of pairs to every stack, over groups that are
// equal in all else, or one of the stacks to those that are equal in all else, within a group.
type Curve struct {
	param   string // "share", "pairs", "rules"
	Unit    string // of its values, as they are written
	Heading string // what all points have in common
	Points  []CurvePoint
	Metrics []measure.Metric // the primary one, and p99 beside a median of latency
	Stacks  []CurveStack     // the baseline first
	Slug    string           // what its figure is called
}

// CurvePoint is a value of the parameter, and the group of the cells that have it.
type CurvePoint struct {
	X     float64
	Group *Group
}

// CurveStack is one line of a curve.
type CurveStack struct {
	Name   string
	Series int             // how it is drawn; 0 is the baseline
	Cells  []*measure.Cell // by point; nil where there is none
}

// fewestPoints is how many values a parameter has at least where its curve is drawn: two are a change, which the tables
// have.
const fewestPoints = 3

// pairsParam is what the number of pairs is called as a parameter.
const pairsParam = "pairs"

// Curves finds all of a run.
func (v *Reading) Curves() []Curve {
	list := v.loadCurves()
	for _, g := range v.Groups {
		list = append(list, g.stackCurves()...)
	}
	for i := range list {
		c := &list[i]
		c.Metrics = []measure.Metric{c.Points[0].Group.Primary}
		if prefix, ok := strings.CutSuffix(c.Metrics[0].Name, "latency_p50"); ok {
			p99, _ := v.known.Lookup(prefix + "latency_p99")
			c.Metrics = append(c.Metrics, p99)
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

// loadCurves finds those of the workloads' parameters and of the number of pairs, in the order of the groups.
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

// stackCurves finds those of the parameters of a group's stacks: "rules" of bridge+nftables(rules=10), (rules=100) and
// (rules=1000).
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
	for _, key := range order { // what has the default does not say so in its name
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
		// which is a point of that
		if g.Base != nil && !slices.ContainsFunc(found[key], func(f value) bool { return f.stack == StackName(g.Base) }) {
			for at := range c.Points {
				c.put(at, g.Base, StackName(g.Base), 0)
			}
		}
		for _, f := range found[key] {
			at := slices.IndexFunc(c.Points, func(p CurvePoint) bool { return p.X == f.x })
			c.put(at, f.cell, f.stack, len(c.Stacks))
		}
		c.Stacks = slices.DeleteFunc(c.Stacks, func(s CurveStack) bool { // those of other values, too
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
			n := stackNumber{name: param, unit: unit, x: x, standard: slices.Contains(p.Default, param), rest: StackName(c)}
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
	return Printable(b.String())
}

// sort orders the points by value, each once.
func (c *Curve) sort() {
	slices.SortStableFunc(c.Points, func(a, b CurvePoint) int { return cmp.Compare(a.X, b.X) })
	c.Points = slices.CompactFunc(c.Points, func(a, b CurvePoint) bool { return a.X == b.X })
}

// put puts a cell at a point of a stack's line.
func (c *Curve) put(at int, cell *measure.Cell, stack string, series int) {
	i := slices.IndexFunc(c.Stacks, func(s CurveStack) bool { return s.Name == stack })
	if i < 0 {
		i = len(c.Stacks)
		c.Stacks = append(c.Stacks, CurveStack{stack, series, make([]*measure.Cell, len(c.Points))})
	}
	c.Stacks[i].Cells[at] = cell
}

// Row is that of a stack at a point, nil where it has no value.
func (c *Curve) Row(s CurveStack, at int, m measure.Metric) *measure.Row {
	if s.Cells[at] == nil {
		return nil
	}
	if r := c.Points[at].Group.Row(s.Cells[at], m.Name); r != nil && !math.IsNaN(r.Value) {
		return r
	}
	return nil
}

// has says whether a stack has a value anywhere.
func (c *Curve) has(s CurveStack, m measure.Metric) bool {
	for at := range c.Points {
		if c.Row(s, at, m) != nil {
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

// Label writes a value of the parameter.
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

// Title names the parameter, with the unit of its values where that is not written with them.
func (c *Curve) Title() string {
	switch c.param {
	case "payload", "response", "message", "send-buffer", "recv-buffer":
		return c.param + ", bytes"
	}
	return Printable(c.param)
}

// Name is what it is about.
func (c *Curve) Name() string { return Capital(Label(c.Metrics[0])) + " by " + Printable(c.param) }

// Tables are what the figure shows, in numbers: one for each metric.
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
				text := "–"
				if r := c.Row(s, at, m); r != nil {
					text = Number(r.Value, r.Unit)
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
func (v *Reading) curvesPart() (Part, bool) {
	p := Part{Title: "Curves", ID: "curves"}
	for _, c := range v.Curves() {
		p.Parts = append(p.Parts, Part{Title: c.Name() + ": " + c.Heading, Figures: c.Slug, Tables: c.Tables()})
	}
	return p, len(p.Parts) > 0
}
