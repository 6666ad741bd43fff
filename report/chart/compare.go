package chart

import (
	"math"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/figure"
)

// DrawCompared draws the figures of a comparison: for each group the changes, and the values of all runs.
func DrawCompared(v report.Comparison) Charts {
	all := Charts{by: map[string][]figure.Figure{}}
	for _, g := range v.Groups {
		for _, draw := range []func(report.ComparedGroup) (figure.Figure, bool){comparedChanges, comparedValues} {
			if f, ok := draw(g); ok {
				all.add(g.Slug, f)
			}
		}
	}
	return all
}

// comparedRow is a stack in one of the comparisons.
type comparedRow struct {
	name string
	c    *measure.Change
}

func comparedRows(g report.ComparedGroup) []comparedRow {
	var list []comparedRow
	for _, r := range g.Rows {
		for i, c := range r.Changes {
			if c == nil {
				continue
			}
			name := r.Stack
			if len(r.Changes) > 1 {
				name += ", " + r.Words[i]
			}
			list = append(list, comparedRow{name, c})
		}
	}
	return list
}

// comparedChanges draws each change with its interval, and the floor. It returns false if there is nothing to draw.
func comparedChanges(g report.ComparedGroup) (figure.Figure, bool) {
	m := g.Primary
	rows := slices.DeleteFunc(comparedRows(g), func(r comparedRow) bool { return !changeOf(&r.c.Row).ok })
	if len(rows) == 0 {
		return figure.Figure{}, false
	}
	left := max(0, len(rows)-mostOverview)
	rows = rows[:len(rows)-left]
	d := newDrawing(Change, g.Slug+"-change", "What changed from OLD to NEW", g.Heading)
	var marks []changed
	var floors []float64
	for _, r := range rows {
		marks, floors = append(marks, changeOf(&r.c.Row)), append(floors, r.c.Floor)
	}
	least := 0.01
	if m.Differs() {
		least = 1e-4
	}
	s := reach(marks, floors, least, figureEdge, figureWidth-figureEdge)
	const height = 36.0
	var bands []figure.Mark
	for i, r := range rows {
		y := d.Height + 14
		point, interval := report.Change(&r.c.Row)
		shape, hollow, ink := look(r.c.Verdict, m)
		said := report.Verdict(r.c.Verdict, m, true).Text
		d.label(y, r.name, point+"  "+said, ink)
		d.say("%s: %s, 95 %% interval %s, %s.", r.name, point, interval, report.Verdict(r.c.Verdict, m, false).Text)
		at := track{y + 5, y + 21}
		d.tracks = append(d.tracks, at)
		below, zero := d.band(s, r.c.Floor, []track{at})
		bands = append(bands, below...)
		d.add(zero...)
		d.mark(y+13, s, marks[i], 4.5, shape, hollow, ink)
		d.Height += height
	}
	before, after := better(m)
	title := strings.TrimSpace("change of " + report.Label(m) + " " + g.Over)
	if m.Differs() {
		ticks, unit := differenceTicks(s, m)
		d.axis(s, ticks, unitTitle(title, unit), before, after)
	} else {
		d.axis(s, changeTicks(s, 6), title+logarithm, before, after)
	}
	d.Marks = append(bands, d.Marks...)
	d.key("thick line: 95 % interval · thin: widened for the number of comparisons",
		"grey band: the floors of both runs combined, by which equal stacks differ")
	if left > 0 {
		d.key(leftOut(left))
	}
	return d.done(), true
}

// valueOf is the value of a run, with its interval.
type valueOf struct {
	x, lo, hi float64
	ok        bool
}

func ownOf(r *measure.Row) valueOf {
	if r == nil || math.IsNaN(r.Value) || math.IsInf(r.Value, 0) {
		return valueOf{}
	}
	v := valueOf{r.Value, r.ValueLo, r.ValueHi, true}
	if math.IsNaN(v.lo) || math.IsInf(v.hi, 0) {
		v.lo, v.hi = v.x, v.x
	}
	return v
}

// comparedValues draws the values of each stack in each of the runs.
func comparedValues(g report.ComparedGroup) (figure.Figure, bool) {
	type line struct {
		stack string
		runs  []valueOf // the old one first
		words []string
	}
	var lines []line
	var values []float64
	for _, r := range g.Rows {
		l := line{stack: r.Stack, runs: make([]valueOf, 1+len(r.Changes)), words: append([]string{"OLD"}, r.Words...)}
		for i, c := range r.Changes {
			if c == nil {
				continue
			}
			l.runs[i+1] = ownOf(c.New)
			if old := ownOf(c.Old); old.ok {
				l.runs[0] = old
			}
		}
		some := false
		for _, x := range l.runs {
			if x.ok {
				some, values = true, append(values, x.x, x.lo, x.hi)
			}
		}
		if some {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return figure.Figure{}, false
	}
	left := max(0, len(lines)-mostRows)
	lines = lines[:len(lines)-left]
	d := newDrawing(Values, g.Slug+"-values", "What was measured in each run", g.Heading)
	s := spanning(values, figureEdge, figureWidth-figureEdge)
	const apart = 11.0
	for _, l := range lines {
		y := d.Height + 14
		var results []string
		d.Height = y + 6
		for i, x := range l.runs {
			if !x.ok {
				continue
			}
			at := d.Height + apart/2
			ink := figure.Series(i)
			d.line(ink, 2, s.Clip(x.lo), at, s.Clip(x.hi), at)
			d.add(figure.Symbol{
				At: figure.Point{X: s.Clip(x.x), Y: at}, Shape: figure.ShapeOf(i), Radius: 4, Ink: ink, Hollow: i == 0,
			})
			d.Height += apart
			results = append(results, report.Number(x.x, g.Primary.Unit))
		}
		result := strings.Join(results, " → ")
		const fit = 4
		if n := len(results); n > fit {
			result = results[0] + " → … → " + results[n-1]
		}
		d.label(y, l.stack, result, figure.InkText)
		d.say("%s: %s.", l.stack, strings.Join(results, " → "))
		d.tracks = append(d.tracks, track{y + 6, d.Height})
		d.Height += 5
	}
	var all []float64
	for _, v := range values {
		all = append(all, math.Abs(v))
	}
	ticks, unit := valueTicks(s, slices.Min(all), slices.Max(all), g.Primary.Unit)
	before, after := better(g.Primary)
	title := unitTitle(report.Label(g.Primary), unit)
	if s.Log {
		title += logarithm
	}
	d.axis(s, ticks, title, before, after)
	x := figureEdge
	d.Height += 18
	for i, w := range lines[0].words {
		if w == "" {
			continue
		}
		d.add(figure.Symbol{
			At: figure.Point{X: x + 5, Y: d.Height - 7}, Shape: figure.ShapeOf(i), Radius: 3.6, Ink: figure.Series(i),
			Hollow: i == 0,
		})
		d.text(x+13, d.Height-3, w, figure.InkMuted, smallSize, false, figure.Start, figureWidth)
		x += 13 + figure.Breadth(w, smallSize, false) + 14
	}
	d.key("line: 95 % interval over generations, of the value itself")
	if left > 0 {
		d.key(leftOut(left))
	}
	return d.done(), true
}
