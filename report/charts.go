package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report/figure"
)

// Sizes of figures in CSS pixels. They are narrow so that a phone shows them readably, and two stand side by side elsewhere.
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
	d := &drawing{Figure: figure.Figure{Name: figure.Slug(name), Title: title + ": " + subtitle, Width: figureWidth}}
	d.text(figureEdge, 17, title, figure.InkText, titleSize, true, figure.Start, figureWidth-2*figureEdge)
	d.text(figureEdge, 33, subtitle, figure.InkMuted, smallSize, false, figure.Start, figureWidth-2*figureEdge)
	d.Height = 44
	return d
}

func (d *drawing) add(m ...figure.Mark) { d.Marks = append(d.Marks, m...) }

// text adds a text that is shortened to be at most so broad.
func (d *drawing) text(x, y float64, text string, ink figure.Ink, size float64, heavy bool, anchor figure.Anchor, breadth float64) {
	short, whole := figure.Shorten(text, size, heavy, breadth), ""
	if short != text {
		whole = text
	}
	d.add(figure.Text{At: figure.Point{X: x, Y: y}, Text: short, Ink: ink, Size: size, Bold: heavy, Anchor: anchor, Whole: whole})
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
		for _, w := range words(l) {
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

// axis draws a level axis below rows that begin at top: grid lines, numbers, and the title with what lies to the left and to the right.
func (d *drawing) axis(s figure.Scale, ticks []tick, title, left, right string) {
	d.grid(s, ticks)
	if left != "" {
		d.text(s.From, d.Height+33, left, figure.InkMuted, smallSize, false, figure.Start, figureWidth)
		d.text(s.To, d.Height+33, right, figure.InkMuted, smallSize, false, figure.End, figureWidth)
	}
	room := s.To - s.From - 2*max(figure.Breadth(left, smallSize, false), figure.Breadth(right, smallSize, false)) - figureEdge
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
			lines = append(lines, figure.Line{Points: []figure.Point{{X: x, Y: at.top}, {X: x, Y: at.bottom}}, Ink: figure.InkGrid, Width: 1})
		}
		wide := figure.Breadth(t.label, smallSize, false)
		if x-wide/2 < end+4 {
			continue // no room
		}
		end = x + wide/2
		d.text(min(max(x, wide/2+2), figureWidth-wide/2-2), d.Height+17, t.label, figure.InkMuted, smallSize, false, figure.Middle, figureWidth)
	}
	d.Marks = append(lines, d.Marks...)
	d.line(figure.InkMuted, 1, s.From, d.Height, s.To, d.Height)
}

// scaled is how values of a unit are printed at an axis: divided by factor.
func scaled(largest float64, unit string) (factor float64, name string) {
	name = map[string]string{
		measure.UnitTransaction: "/s", measure.UnitConnection: "/s", measure.UnitSecondsPacket: "s", measure.UnitSecondsByte: "s", measure.UnitByte: "byte",
	}[unit]
	name = cmp.Or(name, unit)
	switch unit {
	case measure.UnitShare:
		return 0.01, "%"
	case measure.UnitSegment:
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

// plainNumber prints a number at an axis.
func plainNumber(x float64) string {
	if math.Abs(x) < 1e-12 {
		return "0"
	}
	if a := math.Abs(x); a >= 1e7 || a < 1e-4 {
		return minus(strconv.FormatFloat(x, 'g', 3, 64))
	}
	return minus(strconv.FormatFloat(x, 'f', -1, 64))
}

// valueTicks labels a scale of values with numbers of one unit, or each with its own where they are too far apart for that: then the unit is "".
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
		list = append(list, tick{x * factor, plainNumber(x)})
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

// box is what a row of the figure of values shows.
type box struct {
	lo, q1, median, q3, hi float64   // quantiles of the trials: 5, 25, 50, 75 and 95 %
	generations            []float64 // the median of each
	n                      int
}

// sample is the values of a cell's trials in its primary metric, by generation.
type sample struct{ generations [][]float64 }

func (s sample) box() (box, bool) {
	var all []float64
	var b box
	for _, g := range s.generations {
		if len(g) > 0 {
			all = append(all, g...)
			b.generations = append(b.generations, measure.Median(g))
		}
	}
	if len(all) == 0 {
		return b, false
	}
	slices.Sort(all)
	at := func(q float64) float64 { return all[int(math.Round(q*float64(len(all)-1)))] }
	b.lo, b.q1, b.median, b.q3, b.hi, b.n = at(0.05), at(0.25), measure.Median(all), at(0.75), at(0.95), len(all)
	return b, true
}

// samples sorts the values of all trials by cell and generation. Where a cell's trials are too short for its metric, a quantile, its histograms have
// the values: one for each record.
func samples(run measure.Run, log *measure.Log) map[string]sample {
	type data struct {
		metric string
		sample
		last int // generation
	}
	cells := make(map[string]*data, len(run.Cells))
	for i := range run.Cells {
		c := &run.Cells[i]
		cells[c.ID] = &data{metric: c.Primary}
	}
	add := func(d *data, generation int, x float64) {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return
		}
		if len(d.generations) == 0 || d.last != generation {
			d.generations = append(d.generations, nil)
			d.last = generation
		}
		g := &d.generations[len(d.generations)-1]
		*g = append(*g, x)
	}
	for i := range log.Trials {
		t := &log.Trials[i]
		d := cells[t.Cell]
		if d == nil || t.Failed != "" {
			continue
		}
		if x, ok := t.Metrics[d.metric]; ok {
			add(d, t.Generation, x)
		}
	}
	direct := map[string]bool{}
	for id, d := range cells {
		direct[id] = len(d.generations) > 0
	}
	for _, h := range log.Histograms {
		d := cells[h.Cell]
		if d == nil || direct[h.Cell] {
			continue
		}
		m, _ := measure.LookupMetric(d.metric)
		if m.Kind != measure.KindQuantile || !strings.HasPrefix(m.Name, cmp.Or(h.Metric, "latency")+"_p") {
			continue
		}
		if x, err := measure.Distribute([]measure.Histograms{h}); err == nil {
			add(d, h.Generation, x.Quantile(m.Quantile))
		}
	}
	list := make(map[string]sample, len(cells))
	for id, d := range cells {
		list[id] = d.sample
	}
	return list
}

// mostRows is how many stacks a figure of one group shows.
const mostRows = 40

// shown lists the cells of a group with their series, the twins after their baseline: those who differ most if there are too many for a figure.
func (v *view) shown(g *group, most int) (list []charted, left int) {
	for i, c := range g.cells {
		list = append(list, charted{c, name(c), i})
		if c == g.base {
			for _, t := range g.twinned {
				list = append(list, charted{t, name(c) + ", twin", 0})
			}
		}
	}
	if len(list) <= most {
		return list, 0
	}
	by := slices.Clone(list)
	slices.SortStableFunc(by, func(x, y charted) int { return cmp.Compare(g.distance(y.cell), g.distance(x.cell)) })
	far := map[string]bool{}
	for _, c := range by[:most] {
		far[c.cell.ID] = true
	}
	left = len(list) - most
	return slices.DeleteFunc(list, func(c charted) bool { return !far[c.cell.ID] }), left
}

// charted is a cell in a figure.
type charted struct {
	cell   *measure.Cell
	name   string
	series int
}

// distance is how far a cell is from its baseline; the baseline itself comes first.
func (g *group) distance(c *measure.Cell) float64 {
	if c == g.base {
		return math.Inf(1)
	}
	r := g.row(c, g.primary.Name)
	switch {
	case r == nil || c.Twin:
		return -1
	case r.HasRatio:
		return math.Abs(r.Estimate.Log)
	case r.HasDifference:
		return math.Abs(r.Difference.Points)
	}
	return -1
}

func leftOut(left int) string {
	if left == 0 {
		return ""
	}
	return fmt.Sprintf("%s not shown: those closest to the baseline", count(left, "stack is", "stacks are"))
}

// unitTitle is the title of an axis of values.
func unitTitle(what, unit string) string {
	if unit == "" {
		return what
	}
	return what + ", " + unit
}

// chartValues draws the trials of each stack of a group as box plots.
func (v *view) chartValues(g *group, all map[string]sample) (figure.Figure, bool) {
	m := g.primary
	cells, left := v.shown(g, mostRows)
	boxes := make([]box, len(cells))
	has := make([]bool, len(cells))
	var values []float64
	for i, c := range cells {
		if _, failed := v.failed[c.cell.ID]; failed {
			continue // whatever histograms it may have
		}
		if boxes[i], has[i] = all[c.cell.ID].box(); has[i] {
			values = append(values, boxes[i].lo, boxes[i].hi)
			values = append(values, boxes[i].generations...)
		}
	}
	if len(values) == 0 {
		return figure.Figure{}, false
	}
	d := newDrawing(g.slug+"-values", capital(label(m.Name))+" of every stack", g.heading())
	s := spanning(values, figureEdge, figureWidth-figureEdge)
	const height, half = 46.0, 6.0
	for i, c := range cells {
		y := d.Height + 14
		if !has[i] {
			d.label(y, c.name, v.why(c.cell), figure.InkBad)
			d.say("%s: %s.", c.name, v.why(c.cell))
			d.Height += height
			continue
		}
		b, ink := boxes[i], figure.Series(c.series)
		result := ""
		if r := g.row(c.cell, m.Name); r != nil && !math.IsNaN(r.Value) {
			result = number(r.Value, r.Unit)
			d.say("%s: %s; half of the trials lie between %s and %s.", c.name, result, number(b.q1, m.Unit), number(b.q3, m.Unit))
		}
		d.label(y, c.name, result, figure.InkText)
		y += 15
		d.tracks = append(d.tracks, track{y - half - 3, y + half + 9})
		var dashes []float64
		if c.cell.Twin {
			dashes = []float64{3, 3}
		}
		d.add(figure.Line{Points: []figure.Point{{X: s.At(b.lo), Y: y}, {X: s.At(b.hi), Y: y}}, Ink: ink, Width: 1.2, Dashes: dashes})
		for _, x := range []float64{b.lo, b.hi} {
			d.line(ink, 1.2, s.At(x), y-half/2, s.At(x), y+half/2)
		}
		area := figure.Rect(s.At(b.q1), y-half, max(s.At(b.q3), s.At(b.q1)+1), y+half, ink)
		area.Rim = 1.2
		d.add(area)
		d.line(ink, 2.4, s.At(b.median), y-half, s.At(b.median), y+half)
		for _, x := range b.generations {
			d.add(figure.Symbol{At: figure.Point{X: s.At(x), Y: y + half + 5}, Radius: 2, Ink: ink})
		}
		d.Height += height
	}
	ticks, unit := valueTicks(s, slices.Min(values), slices.Max(values), m.Unit)
	before, after := better(m)
	d.axis(s, ticks, unitTitle(label(m.Name), unit)+logarithmic(s), before, after)
	d.key("box: middle half of the trials, with their median · line: 5 to 95 % of them", "dots: the median of each generation")
	if left > 0 {
		d.key(leftOut(left))
	}
	return d.done(), true
}

// why says in a word or two why a figure shows nothing of a cell.
func (v *view) why(c *measure.Cell) string {
	if f, failed := v.failed[c.ID]; failed && f.Trials > 0 {
		return "failed"
	} else if failed {
		return "not measured"
	}
	return "not known"
}

func logarithmic(s figure.Scale) string {
	if s.Log {
		return " (logarithmic)"
	}
	return ""
}

// better says at the ends of an axis which is the good one.
func better(m measure.Metric) (left, right string) {
	switch m.Better {
	case measure.LowerBetter:
		return "← better", "worse →"
	case measure.HigherBetter:
		return "← worse", "better →"
	case measure.Neither:
	}
	return "", ""
}

// changed is a row of a figure of changes, on an additive scale: logarithms of ratios, or differences in the unit of the metric.
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

// reach makes the scale of changes: all points, and of the intervals and floors what is not absurdly farther than the others.
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

// changeTicks labels a scale of logarithms of ratios with percents, or with factors where percents are hard to grasp.
func changeTicks(s figure.Scale, n int) []tick {
	var list []tick
	lo, hi := math.Exp(s.Lo), math.Exp(s.Hi)
	const far = 3
	if lo > 1.0/far && hi < far {
		step := figure.Step(100 * (hi - lo) / float64(n))
		for _, p := range figure.Steps(100*(lo-1), 100*(hi-1), step) {
			text := plainNumber(math.Round(p*1e6) / 1e6)
			if p > step/2 {
				text = "+" + text
			}
			list = append(list, tick{math.Log1p(p / 100), text + " %"})
		}
		return list
	}
	for _, x := range (figure.Scale{Lo: lo, Hi: hi, Log: true}).Ticks(n) {
		x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
		list = append(list, tick{math.Log(x), "×" + plainNumber(x)})
	}
	return list
}

// differenceTicks labels a scale of differences.
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

// mark draws one change: its intervals and its point. What lies beyond the scale ends in an arrow.
func (d *drawing) mark(y float64, s figure.Scale, c changed, radius float64, shape figure.Shape, hollow bool, ink figure.Ink) {
	draw := func(lo, hi, width float64) {
		if math.IsNaN(lo) || math.IsNaN(hi) {
			return
		}
		d.line(ink, width, s.Clip(lo), y, s.Clip(hi), y)
		for _, end := range []struct{ x, beyond, way float64 }{{lo, s.Lo, -1}, {hi, s.Hi, 1}} {
			if end.way*(end.x-end.beyond) > 0 {
				x := s.Clip(end.x)
				d.add(figure.Area{Points: []figure.Point{{X: x - 5*end.way, Y: y - 4}, {X: x + 2*end.way, Y: y}, {X: x - 5*end.way, Y: y + 4}}, Ink: ink})
			}
		}
	}
	draw(c.adjLo, c.adjHi, 1)
	draw(c.lo, c.hi, radius/1.8)
	d.add(figure.Symbol{At: figure.Point{X: s.Clip(c.point), Y: y}, Shape: shape, Radius: radius, Ink: ink, Hollow: hollow})
}

// look is how a verdict is drawn: told by its shape as well as by its ink.
func look(v measure.Verdict, m measure.Metric) (shape figure.Shape, hollow bool, ink figure.Ink) {
	switch verdict(v, m, false).style {
	case good:
		return figure.Circle, false, figure.InkGood
	case bad:
		return figure.Square, false, figure.InkBad
	case doubt:
		return figure.Diamond, true, figure.InkDoubt
	case dim:
		return figure.Triangle, true, figure.InkMuted
	case plain, bold:
	}
	if v == measure.NoDifference {
		return figure.Circle, true, figure.InkMuted
	}
	return figure.Diamond, false, figure.InkText
}

// chartChanges draws the change of each stack over the baseline with its interval, and the floor.
func (v *view) chartChanges(g *group) (figure.Figure, bool) {
	if g.base == nil {
		return figure.Figure{}, false
	}
	m := g.primary
	cells, left := v.shown(g, mostRows)
	cells = slices.DeleteFunc(cells, func(c charted) bool { return c.cell == g.base })
	rows := make([]changed, len(cells))
	some := false
	for i, c := range cells {
		rows[i] = changeOf(g.row(c.cell, m.Name))
		some = some || rows[i].ok
	}
	if !some {
		return figure.Figure{}, false
	}
	floor := g.floor(m.Name)
	d := newDrawing(g.slug+"-change", "What each stack changes "+g.over(), g.heading())
	least := 0.01
	if m.Differs() {
		least = 1e-4
	}
	s := reach(rows, []float64{floor}, least, figureEdge, figureWidth-figureEdge)
	const height = 36.0
	for i, c := range cells {
		y := d.Height + 14
		r := g.row(c.cell, m.Name)
		if !rows[i].ok {
			d.label(y, c.name, v.why(c.cell), figure.InkBad)
			d.say("%s: %s.", c.name, v.why(c.cell))
			d.Height += height
			continue
		}
		point, interval := change(r)
		shape, hollow, ink := look(r.Verdict, m)
		said := verdict(r.Verdict, m, true).text
		d.label(y, c.name, point+"  "+said, ink)
		d.say("%s: %s, 95 %% interval %s, %s.", c.name, point, interval, verdict(r.Verdict, m, false).text)
		d.tracks = append(d.tracks, track{y + 5, y + 21})
		d.mark(y+13, s, rows[i], 4.5, shape, hollow, ink)
		d.Height += height
	}
	floors, baseline := band(s, floor, d.tracks)
	d.Marks = append(baseline, d.Marks...)
	before, after := better(m)
	over := "change of " + label(m.Name) + " " + g.over()
	if m.Differs() {
		ticks, unit := differenceTicks(s, m)
		d.axis(s, ticks, unitTitle(over, unit), before, after)
	} else {
		d.axis(s, changeTicks(s, 6), over, before, after)
	}
	d.Marks = append(floors, d.Marks...)
	text := "thick line: 95 % interval"
	if len(g.compared()) > 1 || v.comparisons() > 1 {
		text += " · thin: widened for the number of comparisons"
	}
	d.key(text, "grey band: the "+g.floorText())
	d.say("The %s.", g.floorText())
	if left > 0 {
		d.key(leftOut(left))
	}
	return d.done(), true
}

// band is the floor behind some tracks, which is drawn below the grid, and the line of the baseline, which is drawn above it.
func band(s figure.Scale, floor float64, tracks []track) (floors, baseline []figure.Mark) {
	for _, at := range tracks {
		if !math.IsNaN(floor) && floor > 0 {
			floors = append(floors, figure.Rect(s.Clip(-floor), at.top, max(s.Clip(floor), s.Clip(-floor)+1), at.bottom, figure.InkBand))
		}
		baseline = append(baseline, figure.Line{Points: []figure.Point{{X: s.At(0), Y: at.top}, {X: s.At(0), Y: at.bottom}}, Ink: figure.InkMuted, Width: 1})
	}
	return floors, baseline
}

// mostOverview is about how many rows one figure of the overview has.
const mostOverview = 48

// chartOverview draws the changes of all groups on one scale, in several figures if there are many. Groups whose primary metric is compared by
// difference are not on it.
func (v *view) chartOverview() []figure.Figure {
	var rows []changed
	var floors []float64
	chunks := [][]*group{nil}
	inChunk := 0
	for _, g := range v.groups {
		if g.base == nil || g.primary.Differs() {
			continue
		}
		if n := len(g.compared()); inChunk > 0 && inChunk+n > mostOverview {
			chunks, inChunk = append(chunks, nil), 0
		}
		for _, c := range g.compared() {
			rows = append(rows, changeOf(g.row(c, g.primary.Name)))
			inChunk++
		}
		floors = append(floors, g.floor(g.primary.Name))
		chunks[len(chunks)-1] = append(chunks[len(chunks)-1], g)
	}
	if !slices.ContainsFunc(rows, func(c changed) bool { return c.ok }) {
		return nil
	}
	const results, beside = 62.0, 150.0
	names := beside
	if slices.ContainsFunc(v.run.Cells, func(c measure.Cell) bool { return figure.Breadth(name(&c), smallSize, false) > beside-2*figureEdge }) {
		names = figureEdge // above their marks
	}
	s := reach(rows, floors, 0.01, names, figureWidth-figureEdge-results)
	var list []figure.Figure
	for i, groups := range chunks {
		which, file := "", "overview"
		if len(chunks) > 1 {
			which, file = fmt.Sprintf(", part %d of %d", i+1, len(chunks)), fmt.Sprintf("overview-%d", i+1)
		}
		d := newDrawing(file, "Every change over the baseline", count(len(rows), "comparison", "comparisons")+" in "+count(len(floors), "group", "groups")+which)
		v.overview(d, groups, s, names == beside, len(rows) <= mostRows)
		d.verdictKey()
		d.key("line: 95 % interval; thin: widened for the number of comparisons", "grey band: the noise floor of the group, by which two equal stacks differ")
		if len(rows) > mostRows { // in words: the sum
			d.said = append(d.said, v.summary()...)
		}
		list = append(list, d.done())
	}
	return list
}

// overview draws the rows of some groups, with the names beside the marks or above them.
func (v *view) overview(d *drawing, groups []*group, s figure.Scale, beside, tell bool) {
	var floors, baseline []figure.Mark
	for _, g := range groups {
		d.Height += 4
		d.text(figureEdge, d.Height+15, label(g.primary.Name)+" · "+g.heading(), figure.InkText, smallSize, true, figure.Start, figureWidth-2*figureEdge)
		d.Height += 22
		var tracks []track
		for _, c := range g.compared() {
			height, rise, room := 18.0, 4.0, s.From-2*figureEdge
			if !beside {
				height, rise, room = 31.0, -9.0, figureWidth-3*figureEdge
			}
			y := d.Height + height - 9
			d.Height += height
			tracks = append(tracks, track{y - 8, y + 8})
			d.text(figureEdge+6, y+rise, name(c), figure.InkText, smallSize, false, figure.Start, room)
			r := g.row(c, g.primary.Name)
			x := changeOf(r)
			if !x.ok {
				d.text(figureWidth-figureEdge, y+4, v.why(c), figure.InkBad, smallSize, false, figure.End, figureWidth-s.To)
				d.say("%s %s: %s.", name(c), g.where, v.why(c))
				continue
			}
			point, interval := change(r)
			shape, hollow, ink := look(r.Verdict, g.primary)
			d.text(figureWidth-figureEdge, y+4, point, ink, smallSize, true, figure.End, figureWidth-s.To)
			d.mark(y, s, x, 3.6, shape, hollow, ink)
			if tell {
				d.say("%s, %s %s: %s, 95 %% interval %s, %s.", name(c), label(g.primary.Name), g.where, point, interval, verdict(r.Verdict, g.primary, false).text)
			}
		}
		d.tracks = append(d.tracks, tracks...)
		below, above := band(s, g.floor(g.primary.Name), tracks)
		floors, baseline = append(floors, below...), append(baseline, above...)
	}
	d.Marks = append(baseline, d.Marks...)
	d.axis(s, changeTicks(s, 4), "change over the baseline", "", "")
	d.Marks = append(floors, d.Marks...)
}

// verdictKey says what the symbols mean.
func (d *drawing) verdictKey() {
	x := figureEdge
	d.Height += 18
	for _, k := range []struct {
		text string
		v    measure.Verdict
	}{{"better", measure.Faster}, {"worse", measure.Slower}, {"no difference", measure.NoDifference}, {"not precise enough", measure.NotPrecise}} {
		shape, hollow, ink := look(k.v, measure.Metric{})
		d.add(figure.Symbol{At: figure.Point{X: x + 5, Y: d.Height - 7}, Shape: shape, Radius: 3.6, Ink: ink, Hollow: hollow})
		d.text(x+13, d.Height-3, k.text, figure.InkMuted, smallSize, false, figure.Start, figureWidth)
		x += 13 + figure.Breadth(k.text, smallSize, false) + 14
	}
}

// mostCurves is how many distributions one figure shows.
const mostCurves = 9

// chartLatency draws the distribution of a latency: which value a share of the samples does not exceed, with the tail drawn out.
func (v *view) chartLatency(g *group, metric string) (figure.Figure, bool) {
	cells, left := v.shown(g, mostCurves)
	cells = slices.DeleteFunc(cells, func(c charted) bool {
		_, failed := v.failed[c.cell.ID]
		return failed || c.cell.Twin && len(g.cells) > 1
	})
	type curve struct {
		charted
		d   measure.Distribution
		end float64 // −log₁₀ of the share above the last quantile that enough samples lie above
	}
	var curves []curve
	var values []float64
	end := 0.0
	for _, c := range cells {
		d, ok := v.a.Distribution(c.cell.ID, metric)
		if !ok || d.Samples < measure.MinSamples(0) {
			continue
		}
		const above = 100 // as measure.MinSamples asks for
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
	d := newDrawing(g.slug+"-"+metric, what+": how long, and how often", g.heading())
	const height, edge = 220.0, 46.0
	y := figure.Scale{Lo: slices.Min(values) / 1.05, Hi: slices.Max(values) * 1.05, Log: true}
	levels, unit := valueTicks(y, slices.Min(values), slices.Max(values), measure.UnitSecond)
	d.text(figureEdge, d.Height+12, unitTitle(strings.ToLower(what), unit)+" (logarithmic)", figure.InkText, textSize, false, figure.Start, figureWidth)
	d.Height += 24
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
	ticks := []tick{{0, "0 %"}, {-math.Log10(0.5), "50 %"}, {1, "90 %"}, {2, "99 %"}, {3, "99.9 %"}, {4, "99.99 %"}, {5, "99.999 %"}, {6, "99.9999 %"}, {7, "99.99999 %"}}
	d.axis(x, slices.DeleteFunc(ticks, func(t tick) bool { return t.at > x.Hi }), "share of the "+strings.ToLower(what)+" that take no longer", "", "")
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
		ink := figure.Series(c.series)
		d.Height += 18
		at := d.Height - 5
		d.add(figure.Line{Points: []figure.Point{{X: figureEdge, Y: at}, {X: figureEdge + 34, Y: at}}, Ink: ink, Width: 1.8, Dashes: figure.Dashes(c.series)})
		d.add(figure.Symbol{At: figure.Point{X: figureEdge + 17, Y: at}, Shape: figure.ShapeOf(c.series), Radius: 3.4, Ink: ink})
		result := "50 %: " + number(c.d.Quantile(0.5), measure.UnitSecond)
		if c.end >= 2 {
			result += " · 99 %: " + number(c.d.Quantile(0.99), measure.UnitSecond)
		}
		d.text(figureWidth-figureEdge, at+4, result, figure.InkMuted, smallSize, false, figure.End, figureWidth/2)
		room := figureWidth - 2*figureEdge - 42 - figure.Breadth(result, smallSize, false) - 12
		d.text(figureEdge+42, at+4, c.name, figure.InkText, textSize, false, figure.Start, room)
		d.say("%s: half of the %s take no longer than %s%s.", c.name, strings.ToLower(what), number(c.d.Quantile(0.5), measure.UnitSecond), tail(c.d, c.end))
	}
	d.Height += 4
	if left > 0 {
		d.key(leftOut(left))
	}
	return d.done(), true
}

// tail says how long the slow ones take, as far as there are samples enough.
func tail(d measure.Distribution, end float64) string {
	var b strings.Builder
	for i, q := range []float64{0.99, 0.999, 0.9999} {
		if end >= float64(i+2) {
			fmt.Fprintf(&b, ", %s %% no longer than %s", strconv.FormatFloat(100*q, 'f', -1, 64), number(d.Quantile(q), measure.UnitSecond))
		}
	}
	return b.String()
}

func capital(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

// charts are the figures of a run.
type charts struct {
	overview []figure.Figure // none with one group, which has its own
	groups   [][]figure.Figure
}

func (c charts) all() []figure.Figure {
	list := slices.Clone(c.overview)
	for _, g := range c.groups {
		list = append(list, g...)
	}
	return list
}

// charts draws every figure of a run.
func (v *view) charts(log *measure.Log) charts {
	var list charts
	if len(v.groups) > 1 {
		list.overview = v.chartOverview()
	}
	values := samples(v.run, log)
	for _, g := range v.groups {
		var own []figure.Figure
		add := func(f figure.Figure, ok bool) {
			if ok {
				own = append(own, f)
			}
		}
		add(v.chartChanges(g))
		add(v.chartValues(g, values))
		add(v.chartLatency(g, "latency"))
		add(v.chartLatency(g, "oneway_latency"))
		list.groups = append(list.groups, own)
	}
	return list
}
