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

// whiskers are the ends of the interval of a row, about its value: as far from it as those of the change are from that.
// NaN where there is none.
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
func (c drawn) scale(from, to float64) figure.Scale {
	lo, hi := c.Points[0].X, c.Points[len(c.Points)-1].X
	s := figure.Scale{Lo: lo, Hi: hi, From: from + inset, To: to - inset}
	const far, apart = 8, 36
	// on a logarithmic axis 0 has no place of its own
	if lo == 0 && hi/c.Points[1].X >= far {
		s.Lo, s.Zero = c.Points[1].X, apart
	}
	if s.Log = c.Unit != "%" && s.Lo > 0 && hi/s.Lo >= far; !s.Log {
		s.Lo, s.Zero = lo, 0
	}
	return s
}

// chartCurve draws a panel for each metric above the values of the parameter.
func (v artist) chartCurve(c drawn) figure.Figure {
	d := newDrawing(c.Slug, c.Name(), c.Heading)
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
	if g := c.Points[0].Group; len(stacks) > 1 && g.Base != nil {
		d.key("whiskers: 95 % interval of the change " + g.Over() + " · grey band: the noise floor about the baseline")
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
				list = append(list, report.Number(r.Value, r.Unit)+" at "+c.Label(p.X))
			}
		}
		d.say("%s, %s: %s.", s.Name, report.Label(m), strings.Join(list, ", "))
	}
}

// levels labels the axis at the side, where there is little room: durations that are far apart have a unit each, of all
// else that of the largest is named.
func levels(y figure.Scale, smallest, largest float64, unit string) (list []tick, name string) {
	const apart = 1e3
	switch {
	case !y.Log || largest/smallest < apart:
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
				lo, hi := whiskers(r)
				ends = append(ends, lo, hi)
			}
		}
	}
	// Whiskers that are absurdly long do not make the rest small.
	lo, hi := slices.Min(values), slices.Max(values)
	reach := max(hi-lo, 0.1*math.Abs(hi))
	for _, e := range ends {
		if e > lo-reach && e < hi+reach && (lo <= 0 || e > lo/2) {
			values = append(values, e)
		}
	}
	y := spanning(values, 0, 0)
	levels, unit := levels(y, lo, hi, m.Unit)
	d.text(figureEdge, d.Height+12, unitTitle(report.Label(m), unit)+logarithmic(y), figure.InkText, textSize, false,
		figure.Start, figureWidth)
	way := map[measure.Better]string{measure.LowerBetter: "↓ better", measure.HigherBetter: "↑ better"}[m.Better]
	d.text(figureWidth-figureEdge, d.Height+12, way, figure.InkMuted, smallSize, false, figure.End, figureWidth)
	d.Height += 22
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
	for i, s := range stacks { // side by side, so that whiskers can be told apart; the baseline has none
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

// floor is the noise floor about the baseline.
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
		if _, broken := x.Break(); broken && p.X == 0 { // a piece of its own
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

// trace draws the curve of a stack: broken where it has no value, and where the axis is.
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
		if lo, hi := whiskers(r); !math.IsNaN(lo) && !math.IsNaN(hi) {
			d.line(ink, 1.2, at.X, y.Clip(max(lo, y.Lo)), at.X, y.Clip(hi))
		}
		symbols = append(symbols, figure.Symbol{At: at, Shape: figure.ShapeOf(s.Series), Radius: 3.4, Ink: ink})
		if _, broken := x.Break(); broken && p.X == 0 {
			end()
		}
	}
	end()
	d.add(symbols...)
}

// series adds the line that says whose a curve is.
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

// shown are the stacks that a figure has room for: those who are far from the baseline anywhere.
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
