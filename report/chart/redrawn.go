package chart

import (
	"math"
	"slices"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/figure"
)

// Sizes of redrawn figures.
const (
	redrawnHeight = 108.0 // height of the bars of an axis
	redrawnEdge   = 46.0  // width of the numbers to the left of them
	groupGap      = 0.8   // between two groups, as a multiple of a bar
	mostBar       = 44.0
)

// Redraw draws a published figure in its original layout, twice: as published, with hollow bars, and as measured here,
// with filled bars and their intervals. Each has its own axis from 0, because the machines differ and only the shapes
// can be compared.
func Redraw(p *report.Plot) figure.Figure {
	d := newDrawing(Paper, p.Name, p.Title, p.Subtitle)
	for i := range p.Panels {
		panel := &p.Panels[i]
		title := panel.Title
		if panel.Of != "" {
			title += ", as shares of " + panel.Of
		}
		d.text(figureEdge, d.Height+12, title, figure.InkText, textSize, false, figure.Start, figureWidth-2*figureEdge)
		d.Height += 18
		for _, half := range []struct {
			title  string
			bars   [][]report.Bar
			hollow bool
		}{{"published", panel.Published, true}, {"here", panel.Here, false}} {
			d.bars(panel, half.title, half.bars, half.hollow)
		}
		d.Height += 6
	}
	d.legend(p.Panels[0].Series)
	d.key("Hollow: as published. Filled: measured here, with 95 % intervals. The axes differ: compare the shapes.")
	if p.Note != "" {
		d.key(p.Note)
	}
	return d.done()
}

// bars draws the bars of a panel.
func (d *drawing) bars(p *report.PlotPanel, title string, bars [][]report.Bar, hollow bool) {
	highest, most := 0.0, 0.0
	for _, group := range bars {
		for _, b := range group {
			if !math.IsNaN(b.Value) && !math.IsInf(b.Value, 0) {
				highest, most = max(highest, b.Value), max(most, b.Value, noNaN(b.Hi))
			}
		}
	}
	const room = 2 // space above the highest bar, as a multiple of it, for intervals
	most = min(most, room*highest)
	if most == 0 {
		d.text(figureEdge, d.Height+10, title+": no figures", figure.InkMuted, smallSize, false, figure.Start,
			figureWidth-2*figureEdge)
		d.Height += 20
		return
	}
	y := figure.Scale{Lo: 0, Hi: most * 1.06}
	levels, unit := divided(y, 1), ""
	switch {
	case p.Of != "":
	case hollow && p.In != "":
		levels, unit = divided(y, p.Per), p.In
	default:
		levels, unit = valueTicks(y, most, most, p.Unit)
	}
	d.text(figureEdge, d.Height+10, unitTitle(title, unit)+direction(p.Better), figure.InkMuted, smallSize, false,
		figure.Start, figureWidth-2*figureEdge)
	top := d.Height + 22
	bottom := top + redrawnHeight
	y.From, y.To = bottom, top
	left, right := redrawnEdge, figureWidth-figureEdge
	for _, t := range levels {
		at := y.At(t.at)
		d.line(figure.InkGrid, 1, left, at, right, at)
		d.text(left-5, at+4, t.label, figure.InkMuted, smallSize, false, figure.End, redrawnEdge-6)
	}
	slots := float64(len(p.Groups)) * (float64(len(p.Series)) + groupGap)
	wide := min((right-left)/slots, mostBar)
	start := left + ((right-left)-wide*slots)/2
	for g, group := range p.Groups {
		from := start + wide*(float64(g)*(float64(len(p.Series))+groupGap)+groupGap/2)
		for s, b := range bars[g] {
			x0, x1 := from+wide*(float64(s)+0.1), from+wide*(float64(s)+0.9)
			if math.IsNaN(b.Value) {
				d.text((x0+x1)/2, bottom-4, "–", figure.InkMuted, smallSize, false, figure.Middle, wide)
				continue
			}
			d.bar(x0, x1, y.At(b.Value), bottom, figure.Series(s+1), hollow)
			if !math.IsNaN(b.Lo) && !math.IsNaN(b.Hi) {
				mid := (x0 + x1) / 2
				d.line(figure.InkText, 1.4, mid, y.Clip(b.Lo), mid, y.Clip(b.Hi))
				for _, end := range []float64{b.Lo, b.Hi} {
					if end > y.Hi { // the interval exceeds the axis
						continue
					}
					d.line(figure.InkText, 1.4, mid-3, y.Clip(end), mid+3, y.Clip(end))
				}
			}
			d.say("%s, %s: %s.", joined(group, p.Series[s]), title, p.Said(b))
		}
		width := wide * (float64(len(p.Series)) + groupGap)
		d.text(from+wide*float64(len(p.Series))/2, bottom+14, group, figure.InkMuted, smallSize, false, figure.Middle, width)
	}
	d.line(figure.InkMuted, 1, left, bottom, right, bottom)
	d.Height = bottom + 24
}

// noNaN returns a number; 0 if it is not finite.
func noNaN(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// bar draws a bar: filled, or only its outline.
func (d *drawing) bar(x0, x1, top, bottom float64, ink figure.Ink, hollow bool) {
	if !hollow {
		d.add(figure.Rect(x0, top, x1, bottom, ink))
		return
	}
	d.add(figure.Line{
		Points: []figure.Point{{X: x0, Y: bottom}, {X: x0, Y: top}, {X: x1, Y: top}, {X: x1, Y: bottom}}, Ink: ink,
		Width: 1.8,
	})
}

// legend explains the bars.
func (d *drawing) legend(series []string) {
	if slices.Equal(series, []string{""}) {
		return
	}
	x := figureEdge
	const box, gap = 10.0, 16.0
	d.Height += 4
	for i, name := range series {
		room := box + 5 + figure.Breadth(name, smallSize, false)
		if x+room > figureWidth-figureEdge && x > figureEdge {
			x = figureEdge
			d.Height += 16
		}
		d.add(figure.Rect(x, d.Height, x+box, d.Height+box, figure.Series(i+1)))
		d.text(x+box+5, d.Height+box-1, name, figure.InkText, smallSize, false, figure.Start, figureWidth-x-box-figureEdge)
		x += room + gap
	}
	d.Height += 16
}

// direction returns the better direction in words.
func direction(b measure.Better) string {
	switch b {
	case measure.HigherBetter:
		return " – higher is better"
	case measure.LowerBetter:
		return " – lower is better"
	case measure.Neither:
	}
	return ""
}

func joined(group, series string) string {
	if group == "" || series == "" {
		return group + series
	}
	return group + ", " + series
}
