package report

import (
	"strings"
)

// Section is a part of a report: a title and what follows it. A caller may bring sections of its own ([Options]); every
// view for people shows them after the answer. Texts are plain: each view escapes them as its format asks.
type Section struct {
	Title  string
	Detail bool // shown when asked for: folded, and in text with Options.All alone
	Blocks []Block
}

// Block is a paragraph or a table.
type Block struct {
	Text  string // a paragraph; "" where there is a table
	Tone  Tone   // of the paragraph
	Table *Table
}

// Table is a table with a heading. Every row has a field for each column; the first says what the row is about.
type Table struct {
	Caption string // "" if its section's title says enough
	Columns []Column
	Rows    [][]Field
}

// Column is the heading of a column.
type Column struct {
	Title string
	Right bool // aligned, as numbers are
}

// Field is one field of a table.
type Field struct {
	Text string
	Tone Tone
}

// Tone is what a text means beyond its words. No view says it by colour alone.
type Tone string

// Tones.
const (
	Plain Tone = ""
	Good  Tone = "good"
	Bad   Tone = "bad"
	Doubt Tone = "doubt"
	Quiet Tone = "quiet" // beside the point
)

func (t Tone) style() style {
	switch t {
	case Good:
		return good
	case Bad:
		return bad
	case Doubt:
		return doubt
	case Quiet:
		return dim
	case Plain:
	}
	return plain
}

func (s style) tone() Tone {
	switch s {
	case good:
		return Good
	case bad:
		return Bad
	case doubt:
		return Doubt
	case dim:
		return Quiet
	case bold, plain:
	}
	return Plain
}

// section writes a section as text.
func (v *view) section(s Section) {
	v.blank()
	v.prose("", "  ", printable(s.Title), bold)
	for _, b := range s.Blocks {
		if b.Table == nil {
			v.prose("", "", printable(b.Text), b.Tone.style())
			continue
		}
		if b.Table.Caption != "" {
			space := strings.Repeat(" ", indent)
			v.prose(space, space, printable(b.Table.Caption), bold)
		}
		v.table(b.Table.fields())
	}
}

// fields are those of the text view, the heading first.
func (t *Table) fields() [][]field {
	rows := [][]field{make([]field, len(t.Columns))}
	for i, c := range t.Columns {
		rows[0][i] = field{printable(c.Title), dim, c.Right}
	}
	for _, r := range t.Rows {
		row := make([]field, len(t.Columns))
		for i := range min(len(r), len(row)) {
			row[i] = field{printable(r[i].Text), r[i].Tone.style(), t.Columns[i].Right}
		}
		rows = append(rows, row)
	}
	return rows
}

// tableOf makes a table of the text view's rows, the heading first.
func tableOf(caption string, rows [][]field) *Table {
	t := &Table{Caption: caption}
	for i, h := range rows[0] {
		right := false
		for _, r := range rows {
			right = right || r[i].right
		}
		t.Columns = append(t.Columns, Column{h.text, right})
	}
	for _, r := range rows[1:] {
		row := make([]Field, len(r))
		for i, f := range r {
			row[i] = Field{strings.TrimSpace(f.text), f.style.tone()}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
