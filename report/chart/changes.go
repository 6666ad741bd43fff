package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/figure"
)

// changed is a row of a figure of changes, on an additive scale: logarithms of ratios, or differences in the unit of
// the metric.
type changed struct {
	point, lo, hi, adjLo, adjHi float64
	ok                          bool
}

func changeOf(r *measure.Row) changed {
	switch {
	case r == nil:
	case r.HasRatio:
		e := r.Estimate
		c := changed{e.Log, math.Log(e.Lo), math.Log(e.Hi), math.Log(r.AdjLo), math.Log(r.AdjHi), true}
		c.ok = !math.IsNaN(c.point) && !math.IsInf(c.point, 0)
		return c
	case r.HasDifference:
		return changed{r.Difference.Points, r.Difference.Lo, r.Difference.Hi, r.AdjLo, r.AdjHi, true}
	}
	return changed{}
}

// reach returns the scale of changes. It includes all points, and those ends of intervals and floors that are not far
// beyond the others.
func reach(rows []changed, floors []float64, least, from, to float64) figure.Scale {
	most := least
	var ends []float64
	for _, c := range rows {
		if c.ok {
			most = max(most, math.Abs(c.point))
			ends = append(ends, max(math.Abs(c.lo), math.Abs(c.hi)))
		}
	}
	for _, f := range floors {
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			ends = append(ends, f)
		}
	}
	limit := 2 * most
	if usual := measure.Median(ends); !math.IsNaN(usual) && !math.IsInf(usual, 0) {
		limit = max(limit, 1.6*usual)
	}
	lo, hi := -least, least
	for _, c := range rows {
		if c.ok {
			lo, hi = min(lo, max(c.lo, -limit), c.point), max(hi, min(c.hi, limit), c.point)
			if !math.IsNaN(c.adjLo) && !math.IsNaN(c.adjHi) {
				lo, hi = min(lo, max(c.adjLo, -limit)), max(hi, min(c.adjHi, limit))
			}
		}
	}
	for _, f := range floors {
		if !math.IsNaN(f) {
			lo, hi = min(lo, max(-f, -limit)), max(hi, min(f, limit))
		}
	}
	pad := 0.05 * (hi - lo)
	return figure.Scale{Lo: lo - pad, Hi: hi + pad, From: from, To: to}
}

// changeTicks returns the labels of a scale of logarithms of ratios: percents, or factors if percents are hard to
// grasp.
func changeTicks(s figure.Scale, n int) []tick {
	var list []tick
	lo, hi := math.Exp(s.Lo), math.Exp(s.Hi)
	const far = 3
	if lo > 1.0/far && hi < far {
		step := figure.Step(100 * (hi - lo) / float64(n))
		for _, p := range figure.Steps(100*(lo-1), 100*(hi-1), step) {
			text := report.PlainNumber(math.Round(p*1e6) / 1e6)
			if p > step/2 {
				text = "+" + text
			}
			list = append(list, tick{math.Log1p(p / 100), text + " %"})
		}
		return list
	}
	for _, x := range (figure.Scale{Lo: lo, Hi: hi, Log: true}).Ticks(n) {
		x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
		list = append(list, tick{math.Log(x), "×" + report.PlainNumber(x)})
	}
	return list
}

// differenceTicks returns the labels of a scale of differences, and their unit.
func differenceTicks(s figure.Scale, m measure.Metric) (ticks []tick, unit string) {
	factor := 1.0
	if m.Unit == measure.UnitShare {
		factor, unit = 0.01, "points"
	}
	for _, t := range divided(s, factor) {
		if t.at > 0 && t.label != "0" {
			t.label = "+" + t.label
		}
		ticks = append(ticks, t)
	}
	return ticks, unit
}

// mark draws one change: its intervals and its point. An interval beyond the scale ends in an arrow.
func (d *drawing) mark(y float64, s figure.Scale, c changed, radius float64, shape figure.Shape, hollow bool,
	ink figure.Ink,
) {
	draw := func(lo, hi, width float64) {
		if math.IsNaN(lo) || math.IsNaN(hi) {
			return
		}
		d.line(ink, width, s.Clip(lo), y, s.Clip(hi), y)
		d.add(d.arrows(s, y, lo, hi, ink)...)
	}
	draw(c.adjLo, c.adjHi, 1)
	draw(c.lo, c.hi, radius/1.8)
	d.add(figure.Symbol{
		At: figure.Point{X: s.Clip(c.point), Y: y}, Shape: shape, Radius: radius, Ink: ink,
		Hollow: hollow,
	})
}

// arrows returns arrows at the ends of a horizontal scale that an interval exceeds.
func (d *drawing) arrows(s figure.Scale, y, lo, hi float64, ink figure.Ink) []figure.Mark {
	var list []figure.Mark
	for _, end := range []struct{ x, beyond, way float64 }{{lo, s.Lo, -1}, {hi, s.Hi, 1}} {
		if end.way*(end.x-end.beyond) > 0 {
			d.beyond = true
			x := s.Clip(end.x)
			list = append(list, figure.Area{Points: []figure.Point{
				{X: x - 5*end.way, Y: y - 4}, {X: x + 2*end.way, Y: y}, {X: x - 5*end.way, Y: y + 4},
			}, Ink: ink})
		}
	}
	return list
}

// look returns the symbol of a verdict, which its shape shows as well as its ink.
func look(v measure.Verdict, m measure.Metric) (shape figure.Shape, hollow bool, ink figure.Ink) {
	switch report.Verdict(v, m, false).Tone {
	case report.Good:
		return figure.Circle, false, figure.InkGood
	case report.Bad:
		return figure.Square, false, figure.InkBad
	case report.Doubt:
		return figure.Diamond, true, figure.InkDoubt
	case report.Quiet:
		return figure.Triangle, true, figure.InkMuted
	case report.Plain:
	}
	if v == measure.NoDifference {
		return figure.Circle, true, figure.InkMuted
	}
	return figure.Diamond, false, figure.InkText
}

// chartChanges draws the change of each stack over the baseline with its interval, and the floor. It returns false if
// there is nothing to draw.
func (v artist) chartChanges(g *report.Group) (figure.Figure, bool) {
	if g.Base == nil {
		return figure.Figure{}, false
	}
	m := g.Primary
	cells, left := v.shown(g, mostRows)
	cells = slices.DeleteFunc(cells, func(c charted) bool { return c.cell == g.Base })
	rows := make([]changed, len(cells))
	some := false
	for i, c := range cells {
		rows[i] = changeOf(g.Row(c.cell, m.Name))
		some = some || rows[i].ok
	}
	if !some {
		return figure.Figure{}, false
	}
	floor := g.Floor(m.Name)
	d := newDrawing(Change, g.Slug+"-change", "What each stack changes "+g.Over(), g.Heading())
	least := 0.01
	if m.Differs() {
		least = 1e-4
	}
	s := reach(rows, []float64{floor}, least, figureEdge, figureWidth-figureEdge)
	const height = 36.0
	for i, c := range cells {
		y := d.Height + 14
		r := g.Row(c.cell, m.Name)
		if !rows[i].ok {
			d.label(y, c.name, v.why(c.cell), figure.InkBad)
			d.say("%s: %s.", c.name, v.why(c.cell))
			d.Height += height
			continue
		}
		point, interval := report.Change(r)
		shape, hollow, ink := look(r.Verdict, m)
		said := report.Judged(r, m, true).Text
		d.label(y, c.name, point+"  "+said, ink)
		d.say("%s: %s, 95 %% interval %s, %s.", c.name, point, interval, report.Judged(r, m, false).Text)
		d.tracks = append(d.tracks, track{y + 5, y + 21})
		d.mark(y+13, s, rows[i], 4.5, shape, hollow, ink)
		d.Height += height
	}
	floors, baseline := d.band(s, floor, d.tracks)
	d.Marks = append(baseline, d.Marks...)
	before, after := better(m)
	over := "change of " + report.Label(m) + " " + g.Over()
	if m.Differs() {
		ticks, unit := differenceTicks(s, m)
		d.axis(s, ticks, unitTitle(over, unit), before, after)
	} else {
		d.axis(s, changeTicks(s, 6), over+logarithm, before, after)
	}
	d.Marks = append(floors, d.Marks...)
	text := "thick line: 95 % interval"
	if len(g.Compared()) > 1 || v.Comparisons() > 1 {
		text += " · thin: widened for the number of comparisons"
	}
	d.key(text, "grey: the "+g.FloorText())
	d.say("The %s.", g.FloorText())
	if left > 0 {
		d.key(leftOut(left))
	}
	return d.done(), true
}

// band returns the floor behind some tracks, which is drawn below the grid, and the line of the baseline, which is
// drawn above it.
func (d *drawing) band(s figure.Scale, floor float64, tracks []track) (floors, baseline []figure.Mark) {
	for _, at := range tracks {
		if !math.IsNaN(floor) && floor > 0 {
			floors = append(floors, figure.Rect(s.Clip(-floor), at.top, max(s.Clip(floor), s.Clip(-floor)+1), at.bottom,
				figure.InkBand))
			floors = append(floors, d.arrows(s, (at.top+at.bottom)/2, -floor, floor, figure.InkMuted)...)
		}
		baseline = append(baseline, figure.Line{
			Points: []figure.Point{{X: s.At(0), Y: at.top}, {X: s.At(0), Y: at.bottom}}, Ink: figure.InkMuted, Width: 1,
		})
	}
	return floors, baseline
}

// mostOverview is the approximate number of rows in one figure of the overview.
const mostOverview = 48

// chartOverview draws the changes of all groups, with a scale for each direction of their metrics: better is to the
// left on one and to the right on the other. A direction with many rows has several figures. Groups whose primary
// metric is compared by difference are on none.
func (v artist) chartOverview() []figure.Figure {
	by := map[measure.Better][]*report.Group{}
	for _, g := range v.Groups {
		if g.Base != nil && !g.Primary.Differs() {
			by[g.Primary.Better] = append(by[g.Primary.Better], g)
		}
	}
	var list []figure.Figure
	for _, way := range []struct {
		better    measure.Better
		name, end string
	}{
		{measure.LowerBetter, "lower", ": lower is better"},
		{measure.HigherBetter, "higher", ": higher is better"},
		{measure.Neither, "neither", ": neither way is better"},
	} {
		name, end := Overview, ""
		if len(by) > 1 {
			name, end = Overview+"-"+way.name, way.end
		}
		list = append(list, v.overviewOf(by[way.better], way.better, name, end)...)
	}
	return list
}

// overviewOf draws the groups whose metrics have one direction.
func (v artist) overviewOf(all []*report.Group, way measure.Better, name, end string) []figure.Figure {
	var rows []changed
	var floors []float64
	chunks := [][]*report.Group{nil}
	inChunk := 0
	for _, g := range all {
		if n := len(g.Compared()); inChunk > 0 && inChunk+n > mostOverview {
			chunks, inChunk = append(chunks, nil), 0
		}
		for _, c := range g.Compared() {
			rows = append(rows, changeOf(g.Row(c, g.Primary.Name)))
			inChunk++
		}
		floors = append(floors, g.Floor(g.Primary.Name))
		chunks[len(chunks)-1] = append(chunks[len(chunks)-1], g)
	}
	if !slices.ContainsFunc(rows, func(c changed) bool { return c.ok }) {
		return nil
	}
	const results, beside = 62.0, 150.0
	names := beside
	if slices.ContainsFunc(v.Run.Cells, func(c measure.Cell) bool {
		return figure.Breadth(report.StackName(&c), smallSize, false) > beside-2*figureEdge
	}) {
		names = figureEdge // above the marks of their row
	}
	s := reach(rows, floors, 0.01, names, figureWidth-figureEdge-results)
	var list []figure.Figure
	for i, groups := range chunks {
		which, file := "", name
		if len(chunks) > 1 {
			which, file = fmt.Sprintf(", part %d of %d", i+1, len(chunks)), fmt.Sprintf("%s-%d", name, i+1)
		}
		d := newDrawing(Overview, file, "Every change over the baseline"+end,
			report.Count(len(rows), "comparison", "comparisons")+" in "+report.Count(len(floors), "group", "groups")+which)
		v.overview(d, groups, s, names == beside, len(rows) <= mostRows)
		before, after := better(measure.Metric{Better: way})
		d.axis(s, changeTicks(s, 4), "change over the baseline"+logarithm, before, after)
		d.Marks = append(d.floors, d.Marks...)
		d.verdictKey()
		d.key("line: 95 % interval; thin: widened for the number of comparisons",
			"grey band: the noise floor of the group, by which two equal stacks differ")
		if len(rows) > mostRows { // the description has only the totals
			d.said = append(d.said, v.Summary()...)
		}
		list = append(list, d.done())
	}
	return list
}

// overview draws the rows of some groups, with the names beside the marks or above them.
func (v artist) overview(d *drawing, groups []*report.Group, s figure.Scale, beside, tell bool) {
	var baseline []figure.Mark
	for _, g := range groups {
		d.Height += 4
		const between = " · "
		for _, line := range wrapped(append([]string{report.Label(g.Primary)}, strings.Split(g.Heading(), between)...),
			between, true) {
			d.text(figureEdge, d.Height+15, line, figure.InkText, smallSize, true, figure.Start, figureWidth-2*figureEdge)
			d.Height += 14
		}
		d.Height += 8
		var tracks []track
		for _, c := range g.Compared() {
			height, rise, room := 18.0, 4.0, s.From-2*figureEdge
			if !beside {
				height, rise, room = 31.0, -9.0, figureWidth-3*figureEdge
			}
			y := d.Height + height - 9
			d.Height += height
			tracks = append(tracks, track{y - 8, y + 8})
			d.text(figureEdge+6, y+rise, report.StackName(c), figure.InkText, smallSize, false, figure.Start, room)
			r := g.Row(c, g.Primary.Name)
			x := changeOf(r)
			if !x.ok {
				d.text(figureWidth-figureEdge, y+4, v.why(c), figure.InkBad, smallSize, false, figure.End, figureWidth-s.To)
				d.say("%s %s: %s.", report.StackName(c), g.Where, v.why(c))
				continue
			}
			point, interval := report.Change(r)
			shape, hollow, ink := look(r.Verdict, g.Primary)
			d.text(figureWidth-figureEdge, y+4, point, ink, smallSize, true, figure.End, figureWidth-s.To)
			d.mark(y, s, x, 3.6, shape, hollow, ink)
			if tell {
				d.say("%s, %s %s: %s, 95 %% interval %s, %s.", report.StackName(c), report.Label(g.Primary), g.Where, point,
					interval, report.Judged(r, g.Primary, false).Text)
			}
		}
		d.tracks = append(d.tracks, tracks...)
		below, above := d.band(s, g.Floor(g.Primary.Name), tracks)
		d.floors, baseline = append(d.floors, below...), append(baseline, above...)
	}
	d.Marks = append(baseline, d.Marks...)
}

// verdictKey explains the symbols.
func (d *drawing) verdictKey() {
	x := figureEdge
	d.Height += 18
	for _, k := range []struct {
		text string
		v    measure.Verdict
	}{
		{"better", measure.Faster},
		{"worse", measure.Slower},
		{"no difference", measure.NoDifference},
		{"not decided", measure.NotPrecise},
	} {
		shape, hollow, ink := look(k.v, measure.Metric{})
		d.add(figure.Symbol{At: figure.Point{X: x + 5, Y: d.Height - 7}, Shape: shape, Radius: 3.6, Ink: ink, Hollow: hollow})
		d.text(x+13, d.Height-3, k.text, figure.InkMuted, smallSize, false, figure.Start, figureWidth)
		x += 13 + figure.Breadth(k.text, smallSize, false) + 14
	}
}
