package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/figure"
)

// Sizes of figures in CSS pixels. They are narrow so that a phone shows them readably, and two stand side by side
// elsewhere.
const (
	figureWidth = 460.0
	figureEdge  = 10.0 // free at the left and at the right
	titleSize   = 14.0
	textSize    = 12.0
	smallSize   = 10.5
)

// drawing gathers the marks of a figure from above to below.
type drawing struct {
	figure.Figure
	said   []string // sentences of the description
	tracks []track  // where rows lie: grid lines are drawn there, and not through the labels
}

// track is the strip of a row that holds marks.
type track struct{ top, bottom float64 }

func newDrawing(name, title, subtitle string) *drawing {
	d := &drawing{Figure: figure.Figure{Name: report.Slug(name), Title: title + ": " + subtitle, Width: figureWidth}}
	d.text(figureEdge, 17, title, figure.InkText, titleSize, true, figure.Start, figureWidth-2*figureEdge)
	d.text(figureEdge, 33, subtitle, figure.InkMuted, smallSize, false, figure.Start, figureWidth-2*figureEdge)
	d.Height = 44
	return d
}

func (d *drawing) add(m ...figure.Mark) { d.Marks = append(d.Marks, m...) }

// text adds a text that is shortened to be at most so broad.
func (d *drawing) text(x, y float64, text string, ink figure.Ink, size float64, heavy bool, anchor figure.Anchor,
	breadth float64,
) {
	short, whole := figure.Shorten(text, size, heavy, breadth), ""
	if short != text {
		whole = text
	}
	d.add(figure.Text{
		At: figure.Point{X: x, Y: y}, Text: short, Ink: ink, Size: size, Bold: heavy, Anchor: anchor,
		Whole: whole,
	})
}

func (d *drawing) line(ink figure.Ink, width float64, x0, y0, x1, y1 float64) {
	d.add(figure.Line{Points: []figure.Point{{X: x0, Y: y0}, {X: x1, Y: y1}}, Ink: ink, Width: width})
}

func (d *drawing) say(format string, args ...any) {
	d.said = append(d.said, fmt.Sprintf(format, args...))
}

// label adds the line above a row: who it is about, and what came out.
func (d *drawing) label(y float64, who, result string, ink figure.Ink) {
	room := figureWidth - 2*figureEdge
	if result != "" {
		room -= figure.Breadth(result, textSize, true) + 2*figureEdge
		d.text(figureWidth-figureEdge, y, result, ink, textSize, true, figure.End, figureWidth/2)
	}
	d.text(figureEdge, y, who, figure.InkText, textSize, false, figure.Start, room)
}

// key adds lines that say what the marks mean.
func (d *drawing) key(lines ...string) {
	const room = figureWidth - 2*figureEdge
	for _, l := range lines {
		line := ""
		for _, w := range report.Words(l) {
			if next := strings.TrimSpace(line + " " + w); line == "" || figure.Breadth(next, smallSize, false) <= room {
				line = next
				continue
			}
			d.keyLine(line)
			line = w
		}
		d.keyLine(line)
	}
}

func (d *drawing) keyLine(text string) {
	d.Height += 15
	d.text(figureEdge, d.Height-3, text, figure.InkMuted, smallSize, false, figure.Start, figureWidth-2*figureEdge)
}

func (d *drawing) done() figure.Figure {
	d.Description = strings.Join(d.said, " ")
	d.Height += 6
	return d.Figure
}

// tick is a number at an axis.
type tick struct {
	at    float64
	label string
}

// level draws a level line from one end of a scale to the other and so much beyond, broken where the scale is: the axis
// gets two strokes there.
func (d *drawing) level(s figure.Scale, beyond float64, ink figure.Ink, y float64) {
	from := s.From - beyond
	if at, broken := s.Break(); broken {
		const gap, lean, rise = 3, 2, 5
		d.line(ink, 1, from, y, at-gap, y)
		if ink == figure.InkMuted {
			d.line(ink, 1, at-gap-lean, y+rise, at-gap+lean, y-rise)
			d.line(ink, 1, at+gap-lean, y+rise, at+gap+lean, y-rise)
		}
		from = at + gap
	}
	d.line(ink, 1, from, y, s.To+beyond, y)
}

// axis draws a level axis below rows that begin at top: grid lines, numbers, and the title with what lies to the left
// and to the right.
func (d *drawing) axis(s figure.Scale, ticks []tick, title, left, right string) {
	d.grid(s, ticks)
	if left != "" {
		d.text(s.From, d.Height+33, left, figure.InkMuted, smallSize, false, figure.Start, figureWidth)
		d.text(s.To, d.Height+33, right, figure.InkMuted, smallSize, false, figure.End, figureWidth)
	}
	room := s.To - s.From - 2*max(figure.Breadth(left, smallSize, false),
		figure.Breadth(right, smallSize, false)) - figureEdge
	d.text((s.From+s.To)/2, d.Height+33, title, figure.InkText, textSize, false, figure.Middle, room)
	d.Height += 41
}

// grid draws the numbers of an axis, and lines for them behind everything.
func (d *drawing) grid(s figure.Scale, ticks []tick) {
	var lines []figure.Mark
	end := math.Inf(-1)
	for _, t := range ticks {
		x := s.At(t.at)
		for _, at := range append([]track{{d.Height, d.Height + 4}}, d.tracks...) {
			lines = append(lines, figure.Line{
				Points: []figure.Point{{X: x, Y: at.top}, {X: x, Y: at.bottom}}, Ink: figure.InkGrid, Width: 1,
			})
		}
		wide := figure.Breadth(t.label, smallSize, false)
		if x-wide/2 < end+4 {
			continue // no room
		}
		end = x + wide/2
		d.text(min(max(x, wide/2+2), figureWidth-wide/2-2), d.Height+17, t.label, figure.InkMuted, smallSize, false,
			figure.Middle, figureWidth)
	}
	d.Marks = append(lines, d.Marks...)
	d.level(s, 0, figure.InkMuted, d.Height)
}

// scaled is how values of a unit are printed at an axis: divided by factor.
func scaled(largest float64, unit string) (factor float64, name string) {
	name = map[string]string{
		measure.UnitTransaction: "/s", measure.UnitConnection: "/s", measure.UnitSecondsPacket: "s",
		measure.UnitSecondsByte: "s", measure.UnitByte: "byte",
	}[unit]
	name = cmp.Or(name, unit)
	switch unit {
	case measure.UnitShare:
		return 0.01, "%"
	case measure.UnitSegment, measure.UnitMessage, measure.UnitStall, measure.UnitOpen:
		return 1, ""
	case measure.UnitCores:
		return 1, "cores"
	case measure.UnitSecondsByte:
		largest *= 1000 // for 1000 bytes
	}
	factor, prefix := 1.0, ""
	for _, p := range []struct {
		factor float64
		prefix string
	}{{1e-12, "p"}, {1e-9, "n"}, {1e-6, "µ"}, {1e-3, "m"}, {1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}} {
		if strings.HasSuffix(name, "s") && !strings.Contains(name, "/") && p.factor > 1 {
			break // no ks
		}
		if largest >= p.factor {
			factor, prefix = p.factor, p.prefix
		}
	}
	if unit == measure.UnitSecondsByte {
		factor /= 1000
	}
	switch {
	case prefix == "" || name != "/s":
		return factor, prefix + name
	case prefix == "k":
		return factor, "thousands/s"
	case prefix == "M":
		return factor, "millions/s"
	}
	return factor, prefix + name
}

// valueTicks labels a scale of values with numbers of one unit, or each with its own where they are too far apart for
// that: then the unit is "".
func valueTicks(s figure.Scale, smallest, largest float64, unit string) (ticks []tick, name string) {
	const apart = 1e4
	if s.Log && s.Hi/s.Lo > apart {
		for _, x := range s.Ticks(6) {
			ticks = append(ticks, tick{x, measure.Format(x, unit)})
		}
		return ticks, ""
	}
	factor, name := scaled(largest, unit)
	if s.Log {
		factor, name = scaled(smallest, unit)
	}
	return divided(s, factor), name
}

// divided labels a scale with values divided by a factor.
func divided(s figure.Scale, factor float64) []tick {
	by := s
	by.Lo, by.Hi = s.Lo/factor, s.Hi/factor
	var list []tick
	for _, x := range by.Ticks(6) {
		x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
		list = append(list, tick{x * factor, report.PlainNumber(x)})
	}
	return list
}

// spanning makes a scale that holds all values, logarithmic where they are far apart.
func spanning(values []float64, from, to float64) figure.Scale {
	lo, hi := slices.Min(values), slices.Max(values)
	const far = 8
	if lo > 0 && hi/lo >= far {
		return figure.Scale{Lo: lo / 1.1, Hi: hi * 1.1, From: from, To: to, Log: true}
	}
	pad := 0.04 * (hi - lo)
	if pad == 0 {
		pad = max(math.Abs(hi)*0.05, 1e-12)
	}
	if lo >= 0 {
		return figure.Scale{Lo: max(0, lo-pad), Hi: hi + pad, From: from, To: to}
	}
	return figure.Scale{Lo: lo - pad, Hi: hi + pad, From: from, To: to}
}
