package chart

import (
	"math"
	"strconv"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/figure"
)

// chartMemory draws how much two trials of a group have in common, by the time between them.
func (v artist) chartMemory(g *report.Group) (figure.Figure, bool) {
	m, ok := v.Memory(g)
	if !ok || m.Lags == nil {
		return figure.Figure{}, false
	}
	d := newDrawing(Memory, g.MemorySlug(), "How long noise is remembered", g.Heading())
	const edge, height = 46.0, 150.0
	d.heading("correlation of two trials", measure.Neither)
	top := d.Height
	d.Height += height
	d.tracks = append(d.tracks, track{top, d.Height})
	first, last := m.Lags[0], m.Lags[len(m.Lags)-1]
	x := figure.Scale{Lo: first.At, Hi: last.At, From: edge + inset, To: figureWidth - figureEdge - inset, Log: true}
	for _, s := range []float64{m.Trial, m.Near} {
		if s > 0 {
			x.Lo = min(x.Lo, s)
		}
	}
	y := figure.Scale{Lo: -0.5, Hi: 1, From: d.Height, To: top}
	var bands []figure.Mark
	if !math.IsNaN(m.Near) {
		bands = append(bands, figure.Rect(x.Clip(m.Near)-1, top, x.Clip(m.Far)+1, d.Height, figure.InkBand))
	}
	for _, at := range []float64{-0.5, 0, 0.5, 1} {
		d.level(x, inset, figure.InkGrid, y.At(at))
		d.text(edge-6, y.At(at)+4, report.PlainNumber(at), figure.InkMuted, smallSize, false, figure.End, edge-6)
	}
	dashed := func(x0, y0, x1, y1 float64) {
		d.add(figure.Line{
			Points: []figure.Point{{X: x0, Y: y0}, {X: x1, Y: y1}}, Ink: figure.InkMuted, Width: 1, Dashes: []float64{4, 3},
		})
	}
	forgotten := y.At(1 / math.E)
	dashed(edge, forgotten, x.To+inset, forgotten)
	d.text(edge-6, forgotten+4, "1/e", figure.InkMuted, smallSize, false, figure.End, edge-6)
	if m.Trial > 0 {
		dashed(x.At(m.Trial), top, x.At(m.Trial), d.Height)
	}
	ink := figure.Series(1)
	var line []figure.Point
	var symbols []figure.Mark
	for _, l := range m.Lags {
		if math.IsNaN(l.Correlation) {
			continue
		}
		at := figure.Point{X: x.At(l.At), Y: y.Clip(l.Correlation)}
		line = append(line, at)
		if !math.IsNaN(l.Lo) {
			d.line(ink, 1.2, at.X, y.Clip(l.Lo), at.X, y.Clip(l.Hi))
		}
		symbols = append(symbols, d.upright(y, at.X, l.Lo, l.Hi, ink)...)
		symbols = append(symbols, figure.Symbol{At: at, Shape: figure.Circle, Radius: 3.4, Ink: ink})
		d.say("%s apart: %s (%s).", report.About(l.At), correlation(l.Correlation), report.Count(l.Pairs, "pair", "pairs"))
	}
	d.add(figure.Line{Points: line, Ink: ink, Width: 1.8})
	d.add(symbols...)
	if m.Seconds > 0 && !math.IsInf(m.Seconds, 0) {
		d.line(figure.InkText, 2.5, x.Clip(m.Lo), forgotten, x.Clip(m.Hi), forgotten)
		d.add(figure.Symbol{
			At: figure.Point{X: x.At(m.Seconds), Y: forgotten}, Shape: figure.Diamond, Radius: 5, Ink: figure.InkText,
		})
	}
	ticks, unit := valueTicks(x, x.Lo, x.Hi, measure.UnitSecond)
	d.level(x, inset, figure.InkMuted, d.Height)
	d.axis(x, ticks, unitTitle("time between their starts", unit)+logarithm, "", "")
	d.Marks = append(bands, d.Marks...)
	d.say("%s.", report.Capital(report.Remembered(m)))
	if m.Seconds > 0 && !math.IsInf(m.Seconds, 0) {
		d.key("diamond: noise is remembered for " + report.About(m.Seconds) + ", with the 95 % interval")
	}
	d.key("whiskers: 95 % interval", "grey band: from a cell to its baseline or twin",
		"upright dashes: length of a trial, "+report.About(m.Trial))
	return d.done(), true
}

// correlation writes one.
func correlation(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }
