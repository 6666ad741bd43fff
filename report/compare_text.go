package report

import (
	"math"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// grid is a table with what stands around it.
type grid struct {
	caption string
	rows    func(short bool) [][]field
	notes   []string
}

// grids are the tables of a group.
func (v *comparison) grids(g *group) []grid {
	if !v.all {
		list := []grid{{rows: func(short bool) [][]field { return v.primary(g, short) }}}
		if s := v.drift(g); s != "" {
			list[0].notes = append(list[0].notes, s)
		}
		list[0].notes = append(list[0].notes, v.floorNote(g))
		return list
	}
	var list []grid
	for _, cell := range g.compared() {
		list = append(list, grid{
			caption: name(cell) + " " + g.over(), rows: func(short bool) [][]field { return v.metrics(cell, short) },
		})
	}
	if g.base != nil {
		list = append(list, grid{
			caption: g.baseAs + ", the baseline: changes of the machine, which cancel out", rows: func(bool) [][]field {
				return v.baseline(g)
			},
		})
	}
	return list
}

func heads(first string, titles ...string) []field {
	row := []field{{text: first, style: dim}}
	for _, t := range titles {
		row = append(row, field{t, dim, t != "95 % interval" && t != "verdict"})
	}
	return row
}

// primary makes the rows of the primary metric.
func (v *comparison) primary(g *group, short bool) [][]field {
	first := labelOf(g.primary) + " " + g.over()
	if short {
		first = ""
	}
	rows := [][]field{heads(first, "OLD", "NEW", "change", "95 % interval", "verdict")}
	for _, cell := range g.compared() {
		row := []field{
			{text: name(cell)},
			{text: "–", right: true},
			{text: "–", right: true},
			{right: true},
			{},
			verdict(measure.NotPrecise, g.primary, short),
		}
		if c := v.changes[cell.ID][g.primary.Name]; c != nil {
			point, interval := change(&c.Row)
			row[1].text, row[2].text, row[3].text, row[4].text = toll(c.Old), toll(c.New), point, interval
			row[5] = judgedChange(c, g.primary, short)
		}
		rows = append(rows, row)
	}
	if len(rows) == 1 {
		rows = append(rows, []field{{text: "only the baseline is in both runs", style: dim}})
	}
	return rows
}

// metrics makes the rows of every metric of a cell.
func (v *comparison) metrics(cell *measure.Cell, short bool) [][]field {
	rows := [][]field{heads("", "OLD", "NEW", "change", "95 % interval", "floor", "verdict")}
	for _, metric := range v.ordered(cell) {
		c := v.changes[cell.ID][metric]
		m := c.About
		point, interval := change(&c.Row)
		rows = append(rows, []field{
			{text: labelOf(c.About)},
			{text: toll(c.Old), right: true},
			{text: toll(c.New), right: true},
			{text: point, right: true},
			{text: interval},
			{text: margin(c.Floor, m), style: dim, right: true},
			judgedChange(c, m, short),
		})
	}
	return rows
}

// baseline makes the rows of the baseline's own values.
func (v *comparison) baseline(g *group) [][]field {
	rows := [][]field{heads("", "OLD", "NEW", "change")}
	for _, metric := range v.ordered(g.base) {
		c := v.changes[g.base.ID][metric]
		rows = append(rows, []field{
			{text: labelOf(c.About)},
			{text: valueOf(c.Old), right: true},
			{text: valueOf(c.New), right: true},
			{text: drift(c), right: true},
		})
	}
	return rows
}

func (v *comparison) ordered(cell *measure.Cell) []string {
	names := map[string]bool{}
	for metric := range v.changes[cell.ID] {
		names[metric] = true
	}
	return ordered(v.known, names)
}

// valueOf prints a row's value, "–" where there is none.
func valueOf(r *measure.Row) string {
	if r == nil || math.IsNaN(r.Value) {
		return "–"
	}
	return number(r.Value, r.Unit)
}

// text sets a comparison for a terminal.
func (v *comparison) text() string {
	for _, s := range v.c.Standing() {
		v.prose("✗ ", "  ", s, bad)
	}
	for _, s := range v.sentences() {
		v.prose("", "  ", s, bold)
	}
	space := strings.Repeat(" ", indent)
	for _, g := range v.groups {
		v.blank()
		if wide(g.title()) > v.width {
			v.prose("", space, g.title(), bold)
		} else {
			v.line(g.title(), bold)
		}
		for i, t := range v.grids(g) {
			if t.caption != "" {
				if i > 0 {
					v.blank()
				}
				v.prose(space, space, t.caption, bold)
			}
			rows := t.rows(false)
			if width(rows, wide) > v.width {
				if head := rows[0][0].text; head != "" {
					v.prose(space, space, head, dim)
				}
				rows = t.rows(true)
			}
			v.table(rows)
			for _, n := range t.notes {
				v.prose(space, space+space, n, dim)
			}
		}
	}
	v.blank()
	for _, s := range v.origins() {
		v.prose("", space+space+" ", s, dim)
	}
	if doubts := v.c.Doubts(); len(doubts) > 0 {
		v.blank()
		for _, d := range doubts {
			v.prose("! ", "  ", d, doubt)
		}
	}
	return v.String()
}

// markdown sets a comparison as GitHub Flavored Markdown, for a comment on a change.
func (v *comparison) markdown() string {
	m := &markdown{}
	for _, s := range v.c.Standing() {
		m.blocks([]Block{{Text: s, Tone: Bad}})
	}
	list := v.sentences()
	m.paragraph(heavy(list[0]))
	for _, text := range list[1:] {
		m.WriteString("- " + said(text) + "\n")
	}
	if len(list) > 1 {
		m.WriteByte('\n')
	}
	for _, g := range v.groups {
		p := part{title: g.heading()}
		for _, t := range v.grids(g) {
			p.tables = append(p.tables, Block{Table: tableOf(t.caption, t.rows(false))})
			if len(t.notes) > 0 {
				p.tables = append(p.tables, Block{Text: strings.Join(t.notes, "; "), Tone: Quiet})
			}
		}
		m.part(p, topLevel)
	}
	if doubts := v.c.Doubts(); len(doubts) > 0 {
		m.part(part{title: "Doubts", lists: items(doubts, Doubt)}, topLevel)
	}
	m.part(part{title: "Runs", lists: items(v.origins(), Plain)}, topLevel)
	return strings.TrimRight(m.String(), "\n") + "\n"
}
