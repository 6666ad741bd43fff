package report

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nettoll/nettoll/measure"
)

// Grids returns the tables of a group: the primary metric, and every metric of each cell if all is true.
func (v *Reading) Grids(g *Group, all bool) []Grid {
	notes := append([]string{g.FloorText()}, g.implementationTexts()...)
	if text := g.limitText(); text != "" {
		notes = append(notes, text)
	}
	if text := v.memoryText(g); all && text != "" {
		notes = append(notes, text)
	}
	list := []Grid{{Table: g.primaryTable(false), Short: g.primaryTable(true), Notes: notes}}
	if t := g.directTable(false); t != nil {
		list = append(list, Grid{Table: t, Short: g.directTable(true)})
	}
	if !all {
		return list
	}
	cells := g.Compared()
	if len(cells) == 0 {
		cells = g.Cells
	}
	for _, c := range cells {
		list = append(list, Grid{Table: v.metrics(g, c, false, ""), Short: v.metrics(g, c, true, "")})
	}
	return list
}

// heads returns the columns of these titles. Columns are right-aligned, except the first, intervals and verdicts.
func heads(first string, titles ...string) []Column {
	row := []Column{{Title: first}}
	for _, t := range titles {
		row = append(row, Column{t, t != "95 % interval" && t != "verdict"})
	}
	return row
}

// primaryTable returns the table of the primary metric.
func (g *Group) primaryTable(short bool) *Table {
	over := g.Over()
	if short {
		over = "change"
	}
	t := &Table{Columns: heads("", Label(g.Primary), "difference", over, "95 % interval", "verdict")}
	for _, c := range g.Cells {
		r := g.Row(c, g.Primary.Name)
		row := []Field{{Text: StackName(c)}, {Text: "–"}, {}, {}, {}, Verdict(measure.NotPrecise, g.Primary, short)}
		if r != nil {
			point, interval := Change(r)
			row[1].Text, row[2].Text = Number(r.Value, r.Unit), g.difference(r)
			row[3].Text, row[4].Text = point, interval
			row[5] = Judged(r, g.Primary, short)
		} else if c == g.Base {
			row[5] = Verdict(measure.IsBaseline, g.Primary, short)
		}
		t.Rows = append(t.Rows, row)
	}
	if g.Primary.Differs() { // the change is the difference
		return t.without(2)
	}
	return t
}

// without returns the table without a column.
func (t *Table) without(column int) *Table {
	t.Columns = slices.Delete(t.Columns, column, column+1)
	for i := range t.Rows {
		if column < len(t.Rows[i]) { // else the row is a single text
			t.Rows[i] = slices.Delete(t.Rows[i], column, column+1)
		}
	}
	return t
}

// difference returns the toll of a row's cell over its baseline, in the metric's unit: "+37.0 µs"; "" if it has no
// ratio.
func (g *Group) difference(r *measure.Row) string {
	if g.Base == nil {
		return ""
	}
	b := g.Row(g.Base, r.Metric)
	if b == nil || !r.HasRatio || math.IsNaN(b.Value) || r.Estimate.Ratio == 1 {
		return ""
	}
	e := r.Estimate
	text := Difference(b.Value, e.Ratio, (e.Hi-e.Lo)/2, r.Unit)
	if e.Ratio > 1 && strings.ContainsAny(text, "123456789") {
		return "+" + text
	}
	return text
}

// metrics returns the table of every metric of a cell but one.
func (v *Reading) metrics(g *Group, c *measure.Cell, short bool, but string) *Table {
	base := g.baseAs
	if utf8.RuneCountInString(base) > len("baseline") {
		base = "baseline"
	}
	if c == g.Base {
		base = ""
	}
	t := &Table{Caption: StackName(c), Columns: heads("", "value", base, "difference", "change", "95 % interval", "floor",
		"verdict")}
	for _, metric := range v.known.Sorted(maps.Keys(g.rows[c.ID])) {
		if metric == but {
			continue
		}
		r := g.Row(c, metric)
		m := r.About
		point, interval := Change(r)
		row := []Field{
			{Text: Label(m)},
			{Text: Number(r.Value, r.Unit)},
			{},
			{},
			{Text: point},
			{Text: interval},
			{noise(r.Floor, m), Quiet},
			Judged(r, m, short),
		}
		if g.Base != nil && c != g.Base {
			if b := g.Row(g.Base, metric); b != nil {
				row[2].Text, row[3].Text = Number(b.Value, b.Unit), g.difference(r)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Judged returns the verdict of a row in words.
func Judged(r *measure.Row, m measure.Metric, short bool) Field {
	f := Verdict(r.Verdict, m, short)
	if r.Verdict == measure.TooFew {
		f.Text = TooFew(r.Generations)
	}
	return f
}

// judgedChange returns the verdict of a change between two runs in words.
func judgedChange(c *measure.Change, m measure.Metric, short bool) Field {
	f := Verdict(c.Verdict, m, short)
	if c.Verdict == measure.TooFew {
		f.Text = TooFew(min(c.Old.Generations, c.New.Generations))
	}
	return f
}

// Verdict returns a verdict in words.
func Verdict(v measure.Verdict, m measure.Metric, short bool) Field {
	f := Field{Text: string(v)}
	switch v {
	case measure.Faster:
		f.Tone = Good
	case measure.Slower, measure.HasFailed, measure.Leaks:
		f.Tone = Bad
	case measure.Higher, measure.Lower:
		switch {
		case m.Better == measure.Neither:
		case (v == measure.Higher) == (m.Better == measure.HigherBetter):
			f.Tone = Good
		default:
			f.Tone = Bad
		}
	case measure.TooFew:
		f.Tone = Doubt
		if short {
			f.Text = "too few"
		}
	case measure.NotPrecise:
		f.Tone = Doubt
		if short {
			f.Text = "not precise"
		}
	case measure.TooNoisy:
		f.Tone = Doubt
		if short {
			f.Text = "too noisy"
		}
	case measure.NoDifference:
	case measure.IsBaseline, measure.IsTwin, measure.IsProbed, measure.IsAlone:
		f.Tone = Quiet
	case measure.NotCompared:
		f = Field{Text: "–", Tone: Quiet}
	default:
		f.Text = Printable(f.Text)
	}
	return f
}
