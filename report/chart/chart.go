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

// mostCurves is the number of distributions in one figure at most.
const mostCurves = 9

// chartLatency draws the distribution of a latency: for each share of the samples the value that it does not exceed.
// The tail is stretched. It returns false if there is nothing to draw.
func (v artist) chartLatency(g *report.Group, metric string) (figure.Figure, bool) {
	cells, left := v.shown(g, mostCurves)
	cells = slices.DeleteFunc(cells, func(c charted) bool {
		_, failed := v.Failed[c.cell.ID]
		return failed || c.cell.Twin && len(g.Cells) > 1
	})
	type curve struct {
		charted
		d   measure.Distribution
		end float64 // −log₁₀ of the share above the last quantile that has enough samples above it
	}
	var curves []curve
	var values []float64
	end := 0.0
	for _, c := range cells {
		d, ok := v.Analysis.Distribution(c.cell.ID, metric)
		if !ok || d.Samples < measure.MinSamples(0) {
			continue
		}
		const above = 100 // as in measure.MinSamples
		e := math.Log10(float64(d.Samples) / above)
		curves = append(curves, curve{c, d, e})
		end = max(end, e)
		if lo, hi := d.Quantile(0), d.Quantile(1-math.Pow(10, -e)); lo > 0 {
			values = append(values, lo, hi)
		} else {
			values = append(values, hi)
		}
	}
	values = slices.DeleteFunc(values, func(x float64) bool { return !(x > 0) })
	if len(curves) == 0 || len(values) == 0 {
		return figure.Figure{}, false
	}
	what := "Round trips"
	if metric == "oneway_latency" {
		what = "One-way trips"
	}
	d := newDrawing(Latency, g.Slug+"-"+metric, what+": how long, and how often", g.Heading())
	const height, edge = 220.0, 46.0
	y := figure.Scale{Lo: slices.Min(values) / 1.05, Hi: slices.Max(values) * 1.05, Log: true}
	levels, unit := valueTicks(y, slices.Min(values), slices.Max(values), measure.UnitSecond)
	d.heading(unitTitle(strings.ToLower(what), unit)+logarithm, measure.LowerBetter)
	top := d.Height
	y.From, y.To = top+height, top
	x := figure.Scale{Lo: 0, Hi: max(end, 1), From: edge, To: figureWidth - 16}
	for _, t := range levels {
		at := y.At(t.at)
		d.line(figure.InkGrid, 1, x.From, at, x.To, at)
		d.text(x.From-5, at+4, t.label, figure.InkMuted, smallSize, false, figure.End, edge-6)
	}
	d.Height += height
	d.tracks = []track{{top, top + height}}
	ticks := []tick{
		{0, "0 %"},
		{-math.Log10(0.5), "50 %"},
		{1, "90 %"},
		{2, "99 %"},
		{3, "99.9 %"},
		{4, "99.99 %"},
		{5, "99.999 %"},
		{6, "99.9999 %"},
		{7, "99.99999 %"},
	}
	d.axis(x, slices.DeleteFunc(ticks, func(t tick) bool { return t.at > x.Hi }), "share of the "+strings.ToLower(what)+
		" that take no longer (tail logarithmic)", "", "")
	for _, c := range curves {
		const steps = 90
		ink, dashes := figure.Series(c.series), figure.Dashes(c.series)
		var points []figure.Point
		for i := range steps + 1 {
			e := c.end * float64(i) / steps
			points = append(points, figure.Point{X: x.At(e), Y: y.At(max(c.d.Quantile(1-math.Pow(10, -e)), y.Lo))})
		}
		d.add(figure.Line{Points: points, Ink: ink, Width: 1.8, Dashes: dashes})
		for e := 0.5; e < c.end; e++ {
			at := figure.Point{X: x.At(e), Y: y.At(max(c.d.Quantile(1-math.Pow(10, -e)), y.Lo))}
			d.add(figure.Symbol{At: at, Shape: figure.ShapeOf(c.series), Radius: 3.4, Ink: ink})
		}
	}
	for _, c := range curves {
		at := func(q float64) string { return quantile(g, c.cell, metric, c.d, q) }
		result := "50 %: " + at(0.5)
		if c.end >= 2 {
			result += " · 99 %: " + at(0.99)
		}
		d.series(c.name, c.series, result)
		d.say("%s: half of the %s take no longer than %s%s.", c.name, strings.ToLower(what), at(0.5), tail(at, c.end))
	}
	d.Height += 4
	if left > 0 {
		d.key(leftOut(left))
	}
	return d.done(), true
}

// quantile returns the quantile q of a latency in words. If tables have that quantile, it is the same text as there.
func quantile(g *report.Group, c *measure.Cell, metric string, d measure.Distribution, q float64) string {
	digits := strings.TrimPrefix(strconv.FormatFloat(q, 'f', -1, 64), "0.")
	if len(digits) == 1 {
		digits += "0"
	}
	x := d.Quantile(q)
	if r := g.Row(c, metric+"_p"+digits); r != nil && !math.IsNaN(r.Value) {
		x = r.Value
	}
	return report.Number(x, measure.UnitSecond)
}

// tail returns the high quantiles in words, as far as there are enough samples.
func tail(at func(q float64) string, end float64) string {
	var b strings.Builder
	for i, q := range []float64{0.99, 0.999, 0.9999} {
		if end >= float64(i+2) {
			fmt.Fprintf(&b, ", %s %% no longer than %s", strconv.FormatFloat(100*q, 'f', -1, 64), at(q))
		}
	}
	return b.String()
}

// Kinds of figures.
const (
	Overview = report.Overview // every change over the baseline
	Curve    = "curve"         // the effect of a parameter
	Change   = "change"        // the changes of each stack of a group
	Values   = "values"        // the trials of each stack of a group
	Latency  = "latency"       // distributions
	Memory   = "memory"        // how long noise is remembered
	Paper    = "paper"         // figures of a paper, redrawn
)

// Kinds lists the kinds of figures, in the order of the report.
func Kinds() []string { return []string{Overview, Curve, Change, Values, Latency, Memory, Paper} }

// Charts holds the figures of a run, in the order of the report.
type Charts struct {
	All []figure.Figure
	by  map[string][]figure.Figure // by their place in a document: report.Part.Figures
}

// Of returns the figures at one place of a document.
func (c Charts) Of(name string) []figure.Figure { return c.by[name] }

func (c *Charts) add(name string, list ...figure.Figure) {
	c.All = append(c.All, list...)
	c.by[name] = append(c.by[name], list...)
}

// artist draws the figures of one run.
type artist struct{ *report.Reading }

// Draw draws every figure of a run.
func Draw(run *report.Reading, log *measure.Log) Charts {
	v, all := artist{run}, Charts{by: map[string][]figure.Figure{}}
	if len(v.Groups) > 1 {
		all.add(report.Overview, v.chartOverview()...)
	}
	for _, c := range v.Curves() {
		all.add(c.Slug, v.chartCurve(drawn{c}))
	}
	values := samples(v.Run, log)
	for _, g := range v.Groups {
		add := func(f figure.Figure, ok bool) {
			if ok {
				all.add(g.Slug, f)
			}
		}
		add(v.chartChanges(g))
		add(v.chartValues(g, values))
		add(v.chartLatency(g, "latency"))
		add(v.chartLatency(g, "oneway_latency"))
		if f, ok := v.chartMemory(g); ok {
			all.add(g.MemorySlug(), f)
		}
	}
	return all
}
