package report

import (
	"maps"
	"unicode/utf8"

	"github.com/nettoll/nettoll/measure"
)

// Grids are the tables of a group: the primary metric, and every metric of each cell if all are asked for.
func (v *Reading) Grids(g *Group, all bool) []Grid {
	notes := append([]string{g.FloorText()}, g.implementationTexts()...)
	if text := g.limitText(); text != "" {
		notes = append(notes, text)
	}
	list := []Grid{{Table: g.primaryTable(false), Short: g.primaryTable(true), Notes: notes}}
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

// heads are the titles of columns: all but the first, the intervals and the verdicts are above numbers.
func heads(first string, titles ...string) []Column {
	row := []Column{{Title: first}}
	for _, t := range titles {
		row = append(row, Column{t, t != "95 % interval" && t != "verdict"})
	}
	return row
}

// primaryTable has the primary metric.
func (g *Group) primaryTable(short bool) *Table {
	over := g.Over()
	if short {
		over = "change"
	}
	t := &Table{Columns: heads("", Label(g.Primary), over, "95 % interval", "verdict")}
	for _, c := range g.Cells {
		r := g.Row(c, g.Primary.Name)
		row := []Field{{Text: StackName(c)}, {Text: "–"}, {}, {}, Verdict(measure.NotPrecise, g.Primary, short)}
		if r != nil {
			point, interval := Change(r)
			row[1].Text = Number(r.Value, r.Unit)
			row[2].Text, row[3].Text = point, interval
			row[4] = Judged(r, g.Primary, short)
		} else if c == g.Base {
			row[4] = Verdict(measure.IsBaseline, g.Primary, short)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// metrics has every metric of a cell but one.
func (v *Reading) metrics(g *Group, c *measure.Cell, short bool, but string) *Table {
	base := g.baseAs
	if utf8.RuneCountInString(base) > len("baseline") {
		base = "baseline"
	}
	if c == g.Base {
		base = ""
	}
	t := &Table{Caption: StackName(c), Columns: heads("", "value", base, "change", "95 % interval", "floor", "verdict")}
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
			{Text: point},
			{Text: interval},
			{margin(r.Floor, m), Quiet},
			Judged(r, m, short),
		}
		if g.Base != nil && c != g.Base {
			if b := g.Row(g.Base, metric); b != nil {
				row[2].Text = Number(b.Value, b.Unit)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Judged is the verdict of a row in words.
func Judged(r *measure.Row, m measure.Metric, short bool) Field {
	f := Verdict(r.Verdict, m, short)
	if r.Verdict == measure.TooFew {
		f.Text = TooFew(r.Generations)
	}
	return f
}

// judgedChange is the verdict of a change between two runs.
func judgedChange(c *measure.Change, m measure.Metric, short bool) Field {
	f := Verdict(c.Verdict, m, short)
	if c.Verdict == measure.TooFew {
		f.Text = TooFew(min(c.Old.Generations, c.New.Generations))
	}
	return f
}

// Verdict is the verdict in words.
func Verdict(v measure.Verdict, m measure.Metric, short bool) Field {
	f := Field{Text: string(v)}
	switch v {
	case measure.Faster:
		f.Tone = Good
	case measure.Slower, measure.HasFailed:
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
	case measure.NoDifference:
		if short {
			f.Text = "no difference"
		}
	case measure.IsBaseline, measure.IsTwin, measure.IsProbed:
		f.Tone = Quiet
	default:
		f.Text = Printable(f.Text)
	}
	return f
}
