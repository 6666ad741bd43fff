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

// Sizes of figures in CSS pixels. Figures are narrow: a phone shows them readably, and wider screens show two side by
// side.
const (
	figureWidth = 460.0
	figureEdge  = 10.0 // margin at the left and at the right
	titleSize   = 14.0
	textSize    = 12.0
	smallSize   = 10.5
)

// drawing collects the marks of a figure from top to bottom.
type drawing struct {
	figure.Figure
	said   []string      // sentences of the description
	tracks []track       // positions of rows: grid lines are drawn there, and not through the labels
	floors []figure.Mark // marks below the grid
	beyond bool          // an interval ends in an arrow
}

// track is the strip of a row that holds its marks.
type track struct{ top, bottom float64 }

func newDrawing(kind, name, title, subtitle string) *drawing {
	d := &drawing{Figure: figure.Figure{
		Name: report.Slug(name), Kind: kind, Title: title + ": " + subtitle, Width: figureWidth,
	}}
	d.text(figureEdge, 17, title, figure.InkText, titleSize, true, figure.Start, figureWidth-2*figureEdge)
	d.text(figureEdge, 33, subtitle, figure.InkMuted, smallSize, false, figure.Start, figureWidth-2*figureEdge)
	d.Height = 44
	return d
}

func (d *drawing) add(m ...figure.Mark) { d.Marks = append(d.Marks, m...) }

// text adds a text, shortened to at most breadth.
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

// label adds the line above a row: its subject and its result.
func (d *drawing) label(y float64, who, result string, ink figure.Ink) {
	room := figureWidth - 2*figureEdge
	if result != "" {
		room -= figure.Breadth(result, textSize, true) + 2*figureEdge
		d.text(figureWidth-figureEdge, y, result, ink, textSize, true, figure.End, figureWidth/2)
	}
	d.text(figureEdge, y, who, figure.InkText, textSize, false, figure.Start, room)
}

// key adds lines that explain the marks.
func (d *drawing) key(lines ...string) {
	for _, l := range lines {
		for _, line := range wrapped(report.Words(l), " ", false) {
			d.keyLine(line)
		}
	}
}

// wrapped joins pieces of small text to lines that fit into a figure.
func wrapped(pieces []string, by string, heavy bool) []string {
	const room = figureWidth - 2*figureEdge
	var list []string
	for i, w := range pieces {
		if i > 0 {
			last := &list[len(list)-1]
			if next := *last + by + w; figure.Breadth(next, smallSize, heavy) <= room {
				*last = next
				continue
			}
		}
		list = append(list, w)
	}
	return list
}

func (d *drawing) keyLine(text string) {
	d.Height += 15
	d.text(figureEdge, d.Height-3, text, figure.InkMuted, smallSize, false, figure.Start, figureWidth-2*figureEdge)
}

func (d *drawing) done() figure.Figure {
	if d.beyond {
		d.key("arrow: it goes on beyond the scale")
	}
	d.Description = strings.Join(d.said, " ")
	d.Height += 6
	return d.Figure
}

// tick is a number on an axis.
type tick struct {
	at    float64
	label string
}

// level draws a horizontal line from one end of a scale to the other, and beyond both ends. If the scale is broken, the
// line has a gap there with two strokes.
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

// heading adds the title of a vertical axis above it, with the direction that is better.
func (d *drawing) heading(title string, b measure.Better) {
	way := map[measure.Better]string{measure.LowerBetter: "↓ better", measure.HigherBetter: "↑ better"}[b]
	room := figureWidth - 2*figureEdge
	if way != "" {
		d.text(figureWidth-figureEdge, d.Height+12, way, figure.InkMuted, smallSize, false, figure.End, figureWidth)
		room -= figure.Breadth(way, smallSize, false) + figureEdge
	}
	d.text(figureEdge, d.Height+12, title, figure.InkText, textSize, false, figure.Start, room)
	d.Height += 24
}

// axis draws a horizontal axis below rows that begin at top: grid lines, numbers, the title, and texts at the left and
// at the right end.
func (d *drawing) axis(s figure.Scale, ticks []tick, title, left, right string) {
	d.grid(s, ticks)
	const line = 16.0
	if left != "" {
		d.text(s.From, d.Height+33, left, figure.InkMuted, smallSize, false, figure.Start, figureWidth)
		d.text(s.To, d.Height+33, right, figure.InkMuted, smallSize, false, figure.End, figureWidth)
		aside := 2 * max(figure.Breadth(left, smallSize, false), figure.Breadth(right, smallSize, false))
		if figure.Breadth(title, textSize, false) > s.To-s.From-aside-figureEdge {
			d.Height += line // on a line of its own
		}
	}
	middle, room := (s.From+s.To)/2, figureWidth-2*figureEdge
	if half := figure.Breadth(title, textSize, false) / 2; middle+half > figureWidth-figureEdge ||
		middle-half < figureEdge {
		middle = figureWidth / 2
	}
	d.text(middle, d.Height+33, title, figure.InkText, textSize, false, figure.Middle, room)
	d.Height += 41
}

// grid draws the numbers of an axis, and their lines behind all marks.
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

// scaled returns the factor by which values on an axis are divided, and the unit of the result.
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
			break // "ks" is not usual
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

// valueTicks returns the labels of a scale of values: numbers of one unit. If the values are too far apart for that,
// each label has its own unit, and name is "".
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

// divided returns the labels of a scale whose values are divided by a factor.
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

// spanning returns a scale over all values, logarithmic if they are far apart.
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
