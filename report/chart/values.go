package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/figure"
)

// box is a row of the figure of values.
type box struct {
	lo, q1, median, q3, hi float64   // quantiles of the trials: 5, 25, 50, 75 and 95 %
	generations            []float64 // the median of each generation
	n                      int
}

// sample holds the values of a cell's trials in its primary metric, by generation.
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

// samples sorts the values of all trials by cell and generation. If the trials of a cell are too short for its metric,
// a quantile, the values are those of its histograms: one for each record.
func samples(run measure.Run, log *measure.Log) map[string]sample {
	type data struct {
		metric string
		sample
		last int // number of the last generation
	}
	vocabulary := run.Vocabulary()
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
		m, _ := vocabulary.Lookup(d.metric)
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

// mostRows is the number of stacks in a figure of one group at most.
const mostRows = 40

// shown returns the cells of a group with their series; twins follow their baseline. If there are too many for a
// figure, it returns those that differ most, and the number of the others.
func (v artist) shown(g *report.Group, most int) (list []charted, left int) {
	for i, c := range g.Cells {
		list = append(list, charted{c, report.StackName(c), i})
		if c == g.Base {
			for _, t := range g.Twinned {
				list = append(list, charted{t, report.StackName(c) + ", twin", 0})
			}
		}
	}
	if len(list) <= most {
		return list, 0
	}
	by := slices.Clone(list)
	slices.SortStableFunc(by, func(x, y charted) int { return cmp.Compare(distance(g, y.cell), distance(g, x.cell)) })
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

// distance returns how far a cell is from its baseline. For the baseline itself, it is infinite, so that it comes
// first.
func distance(g *report.Group, c *measure.Cell) float64 {
	if c == g.Base {
		return math.Inf(1)
	}
	r := g.Row(c, g.Primary.Name)
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
	return fmt.Sprintf("%s not shown: those closest to the baseline", report.Count(left, "stack is", "stacks are"))
}

// unitTitle returns the title of an axis of values.
func unitTitle(what, unit string) string {
	if unit == "" {
		return what
	}
	return what + ", " + unit
}

// chartValues draws the trials of each stack of a group as box plots.
func (v artist) chartValues(g *report.Group, all map[string]sample) (figure.Figure, bool) {
	m := g.Primary
	cells, left := v.shown(g, mostRows)
	boxes := make([]box, len(cells))
	has := make([]bool, len(cells))
	var values []float64
	for i, c := range cells {
		if _, failed := v.Failed[c.cell.ID]; failed {
			continue // even if there are histograms
		}
		if boxes[i], has[i] = all[c.cell.ID].box(); has[i] {
			values = append(values, boxes[i].lo, boxes[i].hi)
			values = append(values, boxes[i].generations...)
			if r := g.Row(c.cell, m.Name); r != nil && !math.IsNaN(r.Value) {
				values = append(values, r.Value)
			}
		}
	}
	if len(values) == 0 {
		return figure.Figure{}, false
	}
	d := newDrawing(Values, g.Slug+"-values", report.Capital(report.Label(m))+" of every stack", g.Heading())
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
		result, value := "", b.median
		if r := g.Row(c.cell, m.Name); r != nil && !math.IsNaN(r.Value) {
			result, value = report.Number(r.Value, r.Unit), r.Value
			d.say("%s: %s; half of the trials lie between %s and %s.", c.name, result, report.Number(b.q1, m.Unit),
				report.Number(b.q3, m.Unit))
		}
		d.label(y, c.name, result, figure.InkText)
		y += 15
		d.tracks = append(d.tracks, track{y - half - 3, y + half + 9})
		var dashes []float64
		if c.cell.Twin {
			dashes = []float64{3, 3}
		}
		d.add(figure.Line{
			Points: []figure.Point{{X: s.At(b.lo), Y: y}, {X: s.At(b.hi), Y: y}}, Ink: ink, Width: 1.2,
			Dashes: dashes,
		})
		for _, x := range []float64{b.lo, b.hi} {
			d.line(ink, 1.2, s.At(x), y-half/2, s.At(x), y+half/2)
		}
		area := figure.Rect(s.At(b.q1), y-half, max(s.At(b.q3), s.At(b.q1)+1), y+half, ink)
		area.Rim = 1.2
		d.add(area)
		d.line(ink, 2.4, s.At(value), y-half, s.At(value), y+half)
		for _, x := range b.generations {
			d.add(figure.Symbol{At: figure.Point{X: s.At(x), Y: y + half + 5}, Radius: 2, Ink: ink})
		}
		d.Height += height
	}
	ticks, unit := valueTicks(s, slices.Min(values), slices.Max(values), m.Unit)
	before, after := better(m)
	d.axis(s, ticks, unitTitle(report.Label(m), unit)+logarithmic(s), before, after)
	d.key("thick line: the value as in the tables · dots: the median of each generation",
		"box: middle half of the trials · line: 5 to 95 % of them")
	if left > 0 {
		d.key(leftOut(left))
	}
	return d.done(), true
}

// why returns in a few words why a figure shows nothing for a cell.
func (v artist) why(c *measure.Cell) string {
	if f, failed := v.Failed[c.ID]; failed && f.Trials > 0 {
		return "failed"
	} else if failed {
		return "not measured"
	}
	return "not known"
}

// logarithm ends the title of a logarithmic axis.
const logarithm = " (logarithmic)"

func logarithmic(s figure.Scale) string {
	if s.Log {
		return logarithm
	}
	return ""
}

// better returns the texts at the ends of an axis that show the better direction.
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
