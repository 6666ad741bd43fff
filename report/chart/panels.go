package chart

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/figure"
)

// drawn is a curve in a figure.
type drawn struct{ report.Curve }

// margins returns the value of a baseline with the floor subtracted and added; NaN if unknown.
func margins(r *measure.Row, m measure.Metric) (lo, hi float64) {
	if m.Differs() {
		return r.Value - r.Floor, r.Value + r.Floor
	}
	return r.Value * math.Exp(-r.Floor), r.Value * math.Exp(r.Floor)
}

// inset is the distance of the first and the last point from the edges of a panel.
const inset = 14

// scale returns the scale of the parameter. It is logarithmic for sizes and counts that are far apart, and linear for
// shares.
func (c drawn) scale(from, to float64) figure.Scale {
	lo, hi := c.Points[0].X, c.Points[len(c.Points)-1].X
	s := figure.Scale{Lo: lo, Hi: hi, From: from + inset, To: to - inset}
	const far, apart = 8, 36
	// 0 has no place on a logarithmic axis.
	if lo == 0 && hi/c.Points[1].X >= far {
		s.Lo, s.Zero = c.Points[1].X, apart
	}
	if s.Log = c.Unit != "%" && s.Lo > 0 && hi/s.Lo >= far; !s.Log {
		s.Lo, s.Zero = lo, 0
	}
	return s
}

// chartCurve draws a panel for each metric over the values of the parameter.
func (v artist) chartCurve(c drawn) figure.Figure {
	d := newDrawing(Curve, c.Slug, c.Name(), c.Heading)
	const edge, height = 46.0, 150.0
	x := c.scale(edge, figureWidth-figureEdge)
	stacks, left := c.shown()
	var floors []figure.Mark
	for _, m := range c.Metrics {
		floors = append(floors, d.panel(c, stacks, m, x, height)...)
	}
	var ticks []tick
	for _, p := range c.Points {
		ticks = append(ticks, tick{p.X, c.Label(p.X)})
	}
	axis := ""
	if x.Log {
		axis = " (logarithmic)"
	}
	if _, broken := x.Break(); broken {
		axis = " (logarithmic, 0 apart)"
	}
	d.level(x, inset, figure.InkMuted, d.Height)
	d.axis(x, ticks, c.Title()+axis, "", "")
	d.Marks = append(floors, d.Marks...) // below the grid
	for _, s := range stacks {
		d.series(s.Name, s.Series, "")
		c.say(d, s)
	}
	d.Height += 4
	d.key("whiskers: 95 % interval of the value itself")
	if g := c.Points[0].Group; len(stacks) > 1 && g.Base != nil {
		d.key("grey band: the noise floor about the baseline")
	}
	if slices.ContainsFunc(stacks, func(s report.CurveStack) bool { return c.overloaded(s) >= 0 }) {
		d.key("ring: " + report.Overloaded + ", more than 1 % of the packets were lost")
	}
	if left > 0 {
		d.key(leftOut(left))
	}
	return d.done()
}

// say describes the curve of a stack in words.
func (c drawn) say(d *drawing, s report.CurveStack) {
	for _, m := range c.Metrics {
		var list []string
		for at, p := range c.Points {
			if r := c.Row(s, at, m); r != nil {
				list = append(list, report.Number(r.Value, r.Unit)+" at "+c.Label(p.X)+c.Beside(s, at))
			}
		}
		d.say("%s, %s: %s.", s.Name, report.Label(m), strings.Join(list, ", "))
	}
}

// levels returns the labels of a vertical axis, which has little room. Durations that are far apart have a unit each;
// all other values share the unit of the largest. Values are far apart if one unit would take five digits.
func levels(y figure.Scale, smallest, largest float64, unit string) (list []tick, name string) {
	const apart, long = 1e3, 1e4
	own, _ := scaled(smallest, unit)
	switch {
	case !y.Log || largest/smallest < apart && (unit != measure.UnitSecond || y.Hi/own < long):
		return valueTicks(y, smallest, largest, unit)
	case unit == measure.UnitSecond:
		for _, x := range y.Ticks(6) {
			list = append(list, tick{x, measure.Format(x, unit)})
		}
		return list, ""
	}
	factor, name := scaled(largest, unit)
	return divided(y, factor), name
}

// panel draws one metric. It returns the floor, which is drawn below the grid.
func (d *drawing) panel(c drawn, stacks []report.CurveStack, m measure.Metric, x figure.Scale,
	height float64,
) []figure.Mark {
	var values, ends []float64
	for _, s := range stacks {
		for at := range c.Points {
			if r := c.Row(s, at, m); r != nil {
				values = append(values, r.Value)
				ends = append(ends, r.ValueLo, r.ValueHi)
			}
		}
	}
	// Very long whiskers must not make everything else small.
	lo, hi := slices.Min(values), slices.Max(values)
	reach := max(hi-lo, 0.1*math.Abs(hi))
	for _, e := range ends {
		if e > lo-reach && e < hi+reach && (lo <= 0 || e > lo/2) {
			values = append(values, e)
		}
	}
	y := spanning(values, 0, 0)
	levels, unit := levels(y, lo, hi, m.Unit)
	d.heading(unitTitle(report.Label(m), unit)+logarithmic(y), m.Better)
	top := d.Height
	d.Height += height
	y.From, y.To = d.Height, top
	d.tracks = append(d.tracks, track{top, d.Height})
	from := x.From - inset
	for _, t := range levels {
		at := y.At(t.at)
		d.level(x, inset, figure.InkGrid, at)
		d.text(from-5, at+4, t.label, figure.InkMuted, smallSize, false, figure.End, from-6)
	}
	d.overload(c, stacks, x, top)
	for i, s := range stacks { // side by side, so that whiskers do not overlap; the baseline is not shifted
		const apart = 2.5
		aside := x
		if s.Series > 0 {
			aside.From += apart * (float64(i) - float64(len(stacks)-1)/2)
			aside.To += aside.From - x.From
		}
		d.trace(c, s, m, aside, y)
	}
	d.Height += 8
	return c.floor(m, x, y)
}

// overloaded returns the first overloaded point of a stack; −1 if none is.
func (c drawn) overloaded(s report.CurveStack) int {
	for at := range c.Points {
		if c.Overloaded(s, at) {
			return at
		}
	}
	return -1
}

// overload marks the points of a panel at which any stack is overloaded: once for neighbours.
func (d *drawing) overload(c drawn, stacks []report.CurveStack, x figure.Scale, top float64) {
	is := func(at int) bool {
		return slices.ContainsFunc(stacks, func(s report.CurveStack) bool { return c.Overloaded(s, at) })
	}
	wide := figure.Breadth(report.Overloaded, smallSize, false)
	for at := 0; at < len(c.Points); at++ {
		if !is(at) {
			continue
		}
		from := at
		for at+1 < len(c.Points) && is(at+1) {
			at++
		}
		middle := (x.At(c.Points[from].X) + x.At(c.Points[at].X)) / 2
		middle = min(max(middle, x.From-inset+wide/2+2), x.To+inset-wide/2-2)
		d.text(middle, top+9, report.Overloaded, figure.InkBad, smallSize, false, figure.Middle, figureWidth)
	}
}

// floor returns the noise floor around the baseline.
func (c drawn) floor(m measure.Metric, x, y figure.Scale) []figure.Mark {
	var marks []figure.Mark
	var above, below []figure.Point
	end := func() {
		if len(above) > 1 {
			slices.Reverse(below)
			marks = append(marks, figure.Area{Points: append(above, below...), Ink: figure.InkBand})
		}
		above, below = nil, nil
	}
	add := func(at, hi, lo float64) {
		above, below = append(above, figure.Point{X: at, Y: y.Clip(hi)}),
			append(below, figure.Point{X: at, Y: y.Clip(max(lo, y.Lo))})
	}
	for _, p := range c.Points {
		if p.Group.Base == nil {
			continue
		}
		r := p.Group.Row(p.Group.Base, m.Name)
		if r == nil || math.IsNaN(r.Value) || math.IsNaN(r.Floor) {
			continue
		}
		lo, hi := margins(r, m)
		if _, broken := x.Break(); broken && p.X == 0 { // a segment of its own
			add(x.From-inset/2, hi, lo)
			add(x.From+inset/2, hi, lo)
			end()
			continue
		}
		add(x.At(p.X), hi, lo)
	}
	end()
	return marks
}

// trace draws the curve of a stack, with gaps where it has no value and where the axis is broken.
func (d *drawing) trace(c drawn, s report.CurveStack, m measure.Metric, x, y figure.Scale) {
	ink, dashes := figure.Series(s.Series), figure.Dashes(s.Series)
	var line []figure.Point
	end := func() {
		if len(line) > 1 {
			d.add(figure.Line{Points: line, Ink: ink, Width: 1.8, Dashes: dashes})
		}
		line = nil
	}
	var symbols []figure.Mark
	for i, p := range c.Points {
		r := c.Row(s, i, m)
		if r == nil {
			end()
			continue
		}
		at := figure.Point{X: x.At(p.X), Y: y.Clip(r.Value)}
		line = append(line, at)
		if lo, hi := r.ValueLo, r.ValueHi; !math.IsNaN(lo) && !math.IsNaN(hi) {
			d.line(ink, 1.2, at.X, y.Clip(max(lo, y.Lo)), at.X, y.Clip(hi))
			symbols = append(symbols, d.upright(y, at.X, lo, hi, ink)...)
		}
		if c.Overloaded(s, i) {
			symbols = append(symbols, ring(at))
		}
		symbols = append(symbols, figure.Symbol{At: at, Shape: figure.ShapeOf(s.Series), Radius: 3.4, Ink: ink})
		if _, broken := x.Break(); broken && p.X == 0 {
			end()
		}
	}
	end()
	d.add(symbols...)
}

// ring returns the ring around an overloaded point, which covers nothing.
func ring(at figure.Point) figure.Mark {
	const radius, corners = 6.5, 32
	l := figure.Line{Ink: figure.InkBad, Width: 1.4}
	for i := range corners + 1 {
		sin, cos := math.Sincos(2 * math.Pi * float64(i%corners) / corners)
		l.Points = append(l.Points, figure.Point{X: at.X + radius*cos, Y: at.Y + radius*sin})
	}
	return l
}

// upright returns arrows at the ends of a vertical scale that an interval exceeds.
func (d *drawing) upright(y figure.Scale, x, lo, hi float64, ink figure.Ink) []figure.Mark {
	var list []figure.Mark
	for _, end := range []struct {
		beyond  bool
		at, way float64 // downward in the figure
	}{{lo < y.Lo, y.From, 1}, {hi > y.Hi, y.To, -1}} {
		if end.beyond {
			d.beyond = true
			list = append(list, figure.Area{Points: []figure.Point{
				{X: x - 4, Y: end.at - 5*end.way}, {X: x, Y: end.at + 2*end.way}, {X: x + 4, Y: end.at - 5*end.way},
			}, Ink: ink})
		}
	}
	return list
}

// series adds the line of the legend for a curve.
func (d *drawing) series(name string, series int, result string) {
	ink := figure.Series(series)
	d.Height += 18
	at := d.Height - 5
	d.add(figure.Line{
		Points: []figure.Point{{X: figureEdge, Y: at}, {X: figureEdge + 34, Y: at}}, Ink: ink, Width: 1.8,
		Dashes: figure.Dashes(series),
	})
	d.add(figure.Symbol{
		At: figure.Point{X: figureEdge + 17, Y: at}, Shape: figure.ShapeOf(series), Radius: 3.4,
		Ink: ink,
	})
	d.text(figureWidth-figureEdge, at+4, result, figure.InkMuted, smallSize, false, figure.End, figureWidth/2)
	room := figureWidth - 2*figureEdge - 42 - figure.Breadth(result, smallSize, false) - 12
	d.text(figureEdge+42, at+4, name, figure.InkText, textSize, false, figure.Start, room)
}

// shown returns the stacks that fit into a figure: those farthest from the baseline at any point.
func (c drawn) shown() (list []report.CurveStack, left int) {
	if len(c.Stacks) <= mostCurves {
		return c.Stacks, 0
	}
	far := func(s report.CurveStack) float64 {
		most := -1.0
		for at, cell := range s.Cells {
			if cell != nil {
				most = max(most, distance(c.Points[at].Group, cell))
			}
		}
		return most
	}
	by := slices.Clone(c.Stacks)
	slices.SortStableFunc(by, func(a, b report.CurveStack) int { return cmp.Compare(far(b), far(a)) })
	kept := by[:mostCurves]
	slices.SortStableFunc(kept, func(a, b report.CurveStack) int { return cmp.Compare(a.Series, b.Series) })
	return kept, len(c.Stacks) - mostCurves
}
