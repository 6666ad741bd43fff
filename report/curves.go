package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report/figure"
)

// A curve is what a parameter of the workload, or the number of pairs, does to every stack: groups that are equal in all else.
type curve struct {
	param   string // "share", "pairs"
	unit    string // of its values, as they are written
	points  []curvePoint
	metrics []measure.Metric // the primary one, and p99 beside a median of latency
	stacks  []charted        // the baseline first
}

type curvePoint struct {
	x float64
	g *group
}

// fewestPoints is how many values a parameter has at least where its curve is drawn: two are a change, which the tables have.
const fewestPoints = 3

// pairsParam is what the number of pairs is called as a parameter.
const pairsParam = "pairs"

// curves finds all of a run, in the order in which it has their groups.
func (v *view) curves() []curve {
	var list []curve
	byKey := map[string]int{}
	for _, g := range v.groups {
		c := g.one()
		values := []string{pairsParam + " " + strconv.Itoa(c.Pairs)}
		values = append(values, params(c)...)
		for i, one := range values {
			param, text, _ := strings.Cut(one, " ")
			x, unit, ok := numeric(text)
			if !ok {
				continue
			}
			rest := slices.Delete(slices.Clone(values), i, i+1)
			key := strings.Join(append(rest, param, unit, c.Workload, c.Placement, strconv.Itoa(c.Hosts), c.Family, c.Affinity, c.Primary), "\x00")
			at, known := byKey[key]
			if !known {
				at = len(list)
				byKey[key] = at
				list = append(list, curve{param: param, unit: unit})
			}
			list[at].points = append(list[at].points, curvePoint{x, g})
		}
	}
	for i := range list {
		c := &list[i]
		slices.SortStableFunc(c.points, func(a, b curvePoint) int { return cmp.Compare(a.x, b.x) })
		c.points = slices.CompactFunc(c.points, func(a, b curvePoint) bool { return a.x == b.x })
	}
	list = slices.DeleteFunc(list, func(c curve) bool { return len(c.points) < fewestPoints })
	for i := range list {
		c := &list[i]
		c.metrics = []measure.Metric{c.points[0].g.primary}
		if prefix, ok := strings.CutSuffix(c.metrics[0].Name, "latency_p50"); ok {
			p99, _ := measure.LookupMetric(prefix + "latency_p99")
			c.metrics = append(c.metrics, p99)
		}
		c.gather()
	}
	return slices.DeleteFunc(list, func(c curve) bool { return len(c.stacks) == 0 })
}

// gather finds the stacks that have a value somewhere, and leaves out metrics that none has.
func (c *curve) gather() {
	for _, p := range c.points {
		for i, cell := range p.g.cells {
			if r := p.g.row(cell, c.metrics[0].Name); r == nil || math.IsNaN(r.Value) {
				continue
			}
			n := name(cell)
			if slices.ContainsFunc(c.stacks, func(s charted) bool { return s.name == n }) {
				continue
			}
			c.stacks = append(c.stacks, charted{cell, n, i})
		}
	}
	slices.SortStableFunc(c.stacks, func(a, b charted) int { return cmp.Compare(a.series, b.series) })
	c.metrics = slices.DeleteFunc(c.metrics, func(m measure.Metric) bool {
		return !slices.ContainsFunc(c.stacks, func(s charted) bool {
			return slices.ContainsFunc(c.points, func(p curvePoint) bool { return p.row(s, m) != nil })
		})
	})
}

// row is that of a stack at a point, nil where it has no value.
func (p curvePoint) row(s charted, m measure.Metric) *measure.Row {
	for _, cell := range p.g.cells {
		if name(cell) == s.name {
			if r := p.g.row(cell, m.Name); r != nil && !math.IsNaN(r.Value) {
				return r
			}
		}
	}
	return nil
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
func (c *curve) name() string { return capital(label(c.metrics[0].Name)) + " by " + printable(c.param) }

// heading is what all points have in common: the heading of a group without the parameter.
func (c *curve) heading() string {
	return strings.Replace(title(c.points[0].g.one(), c.param), "  ", ": ", 1)
}

// whiskers are the ends of the interval of a row, about its value: as far from it as those of the change are from that. NaN where there is none.
func whiskers(r *measure.Row) (lo, hi float64) {
	switch {
	case r.HasRatio:
		return r.Value * r.Estimate.Lo / r.Estimate.Ratio, r.Value * r.Estimate.Hi / r.Estimate.Ratio
	case r.HasDifference:
		return r.Value + r.Difference.Lo - r.Difference.Points, r.Value + r.Difference.Hi - r.Difference.Points
	}
	return math.NaN(), math.NaN()
}

// margins are what the floor makes of the value of a baseline. NaN where it is not known.
func margins(r *measure.Row, m measure.Metric) (lo, hi float64) {
	if m.Differs() {
		return r.Value - r.Floor, r.Value + r.Floor
	}
	return r.Value * math.Exp(-r.Floor), r.Value * math.Exp(r.Floor)
}

// inset is how far the first and the last point are from the edges of a panel.
const inset = 14

// scale makes that of a parameter: sizes and counts that are far apart on a logarithmic one, shares never.
func (c *curve) scale(from, to float64) figure.Scale {
	lo, hi := c.points[0].x, c.points[len(c.points)-1].x
	s := figure.Scale{Lo: lo, Hi: hi, From: from + inset, To: to - inset}
	const far = 8
	s.Log = c.unit != "%" && lo > 0 && hi/lo >= far
	return s
}

// chartCurve draws a panel for each metric above the values of the parameter.
func (v *view) chartCurve(c curve, number int) figure.Figure {
	d := newDrawing(fmt.Sprintf("curve-%02d-%s-%.60s", number, c.param, figure.Slug(c.heading())), c.name(), c.heading())
	const edge, height = 46.0, 150.0
	x := c.scale(edge, figureWidth-figureEdge)
	stacks, left := c.shown()
	var floors []figure.Mark
	for _, m := range c.metrics {
		floors = append(floors, d.panel(c, stacks, m, x, height)...)
	}
	var ticks []tick
	for _, p := range c.points {
		ticks = append(ticks, tick{p.x, c.label(p.x)})
	}
	axis := ""
	if x.Log {
		axis = " (logarithmic)"
	}
	d.line(figure.InkMuted, 1, x.From-inset, d.Height, x.To+inset, d.Height)
	d.axis(x, ticks, c.title()+axis, "", "")
	d.Marks = append(floors, d.Marks...) // below the grid
	for _, s := range stacks {
		d.series(s, "")
		c.say(d, s)
	}
	d.Height += 4
	if g := c.points[0].g; len(stacks) > 1 && g.base != nil {
		d.key("whiskers: 95 % interval of the change " + g.over() + " · grey band: the noise floor about the baseline")
	}
	if left > 0 {
		d.key(leftOut(left))
	}
	return d.done()
}

// shown are the stacks that a figure has room for: those who are far from the baseline anywhere.
func (c *curve) shown() (list []charted, left int) {
	if len(c.stacks) <= mostCurves {
		return c.stacks, 0
	}
	far := func(s charted) float64 {
		most := -1.0
		for _, p := range c.points {
			for _, cell := range p.g.cells {
				if name(cell) == s.name {
					most = max(most, p.g.distance(cell))
				}
			}
		}
		return most
	}
	by := slices.Clone(c.stacks)
	slices.SortStableFunc(by, func(a, b charted) int { return cmp.Compare(far(b), far(a)) })
	kept := by[:mostCurves]
	slices.SortStableFunc(kept, func(a, b charted) int { return cmp.Compare(a.series, b.series) })
	return kept, len(c.stacks) - mostCurves
}

// say describes the curve of a stack in words.
func (c *curve) say(d *drawing, s charted) {
	for _, m := range c.metrics {
		var list []string
		for _, p := range c.points {
			if r := p.row(s, m); r != nil {
				list = append(list, number(r.Value, r.Unit)+" at "+c.label(p.x))
			}
		}
		d.say("%s, %s: %s.", s.name, label(m.Name), strings.Join(list, ", "))
	}
}

// tables are what the figure shows, in numbers: one for each metric.
func (c *curve) tables() []Block {
	var list []Block
	for _, m := range c.metrics {
		t := &Table{Caption: capital(label(m.Name)), Columns: []Column{{"stack", false}}}
		for i, p := range c.points {
			text := c.label(p.x)
			if i == 0 {
				text = printable(c.param) + " " + text
			}
			t.Columns = append(t.Columns, Column{text, true})
		}
		for _, s := range c.stacks {
			row := []Field{{Text: s.name}}
			for _, p := range c.points {
				text := "–"
				if r := p.row(s, m); r != nil {
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
		one := part{title: c.name() + ": " + c.heading(), tables: c.tables()}
		if i < len(figures) {
			one.figures = figures[i : i+1]
		}
		p.parts = append(p.parts, one)
	}
	return p, len(p.parts) > 0
}

// panel draws one metric. It returns the floor, which is drawn below the grid.
func (d *drawing) panel(c curve, stacks []charted, m measure.Metric, x figure.Scale, height float64) []figure.Mark {
	var values, ends []float64
	for _, s := range stacks {
		for _, p := range c.points {
			if r := p.row(s, m); r != nil {
				values = append(values, r.Value)
				lo, hi := whiskers(r)
				ends = append(ends, lo, hi)
			}
		}
	}
	// Whiskers that are absurdly long do not make the rest small.
	lo, hi := slices.Min(values), slices.Max(values)
	reach := max(hi-lo, 0.1*math.Abs(hi))
	for _, e := range ends {
		if e > lo-reach && e < hi+reach && (e > 0 || lo <= 0) {
			values = append(values, e)
		}
	}
	y := spanning(values, 0, 0)
	levels, unit := valueTicks(y, slices.Min(values), slices.Max(values), m.Unit)
	d.text(figureEdge, d.Height+12, unitTitle(label(m.Name), unit)+logarithmic(y), figure.InkText, textSize, false, figure.Start, figureWidth)
	way := map[measure.Better]string{measure.LowerBetter: "↓ better", measure.HigherBetter: "↑ better"}[m.Better]
	d.text(figureWidth-figureEdge, d.Height+12, way, figure.InkMuted, smallSize, false, figure.End, figureWidth)
	d.Height += 22
	top := d.Height
	d.Height += height
	y.From, y.To = d.Height, top
	d.tracks = append(d.tracks, track{top, d.Height})
	from, to := x.From-inset, x.To+inset
	for _, t := range levels {
		at := y.At(t.at)
		d.line(figure.InkGrid, 1, from, at, to, at)
		d.text(from-5, at+4, t.label, figure.InkMuted, smallSize, false, figure.End, from-6)
	}
	for i, s := range stacks { // side by side, so that whiskers can be told apart; the baseline has none
		const apart = 2.5
		aside := x
		if s.series > 0 {
			aside.From += apart * (float64(i) - float64(len(stacks)-1)/2)
			aside.To += aside.From - x.From
		}
		d.trace(c, s, m, aside, y)
	}
	d.Height += 8
	return c.floor(m, x, y)
}

// floor is the noise floor about the baseline.
func (c *curve) floor(m measure.Metric, x, y figure.Scale) []figure.Mark {
	var above, below []figure.Point
	for _, p := range c.points {
		if p.g.base == nil {
			continue
		}
		r := p.g.row(p.g.base, m.Name)
		if r == nil || math.IsNaN(r.Value) || math.IsNaN(r.Floor) {
			continue
		}
		lo, hi := margins(r, m)
		above = append(above, figure.Point{X: x.At(p.x), Y: y.Clip(hi)})
		below = append(below, figure.Point{X: x.At(p.x), Y: y.Clip(max(lo, y.Lo))})
	}
	if len(above) < 2 {
		return nil
	}
	slices.Reverse(below)
	return []figure.Mark{figure.Area{Points: append(above, below...), Ink: figure.InkBand}}
}

// trace draws the curve of a stack: broken where it has no value.
func (d *drawing) trace(c curve, s charted, m measure.Metric, x, y figure.Scale) {
	ink, dashes := figure.Series(s.series), figure.Dashes(s.series)
	var line []figure.Point
	end := func() {
		if len(line) > 1 {
			d.add(figure.Line{Points: line, Ink: ink, Width: 1.8, Dashes: dashes})
		}
		line = nil
	}
	var symbols []figure.Mark
	for _, p := range c.points {
		r := p.row(s, m)
		if r == nil {
			end()
			continue
		}
		at := figure.Point{X: x.At(p.x), Y: y.Clip(r.Value)}
		line = append(line, at)
		if lo, hi := whiskers(r); !math.IsNaN(lo) && !math.IsNaN(hi) {
			d.line(ink, 1.2, at.X, y.Clip(max(lo, y.Lo)), at.X, y.Clip(hi))
		}
		symbols = append(symbols, figure.Symbol{At: at, Shape: figure.ShapeOf(s.series), Radius: 3.4, Ink: ink})
	}
	end()
	d.add(symbols...)
}

// series adds the line that says whose a curve is.
func (d *drawing) series(s charted, result string) {
	ink := figure.Series(s.series)
	d.Height += 18
	at := d.Height - 5
	d.add(figure.Line{Points: []figure.Point{{X: figureEdge, Y: at}, {X: figureEdge + 34, Y: at}}, Ink: ink, Width: 1.8, Dashes: figure.Dashes(s.series)})
	d.add(figure.Symbol{At: figure.Point{X: figureEdge + 17, Y: at}, Shape: figure.ShapeOf(s.series), Radius: 3.4, Ink: ink})
	d.text(figureWidth-figureEdge, at+4, result, figure.InkMuted, smallSize, false, figure.End, figureWidth/2)
	room := figureWidth - 2*figureEdge - 42 - figure.Breadth(result, smallSize, false) - 12
	d.text(figureEdge+42, at+4, s.name, figure.InkText, textSize, false, figure.Start, room)
}
