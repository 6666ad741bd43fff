package report

// Section is a part of a report: a title and what follows it. A caller may bring sections of its own ([Options]); every
// view for people shows them after the answer. Texts are plain: each view escapes them as its format asks.
type Section struct {
	Title  string
	Detail bool // shown when asked for: folded, and in text with Options.All alone
	Blocks []Block
}

// Grid is a table that has a shorter form too, for where there is little room, and notes below it.
type Grid struct {
	Table, Short *Table
	Notes        []string
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

// Mark says in a character what a tone says in colour.
func (t Tone) Mark() string {
	switch t {
	case Bad:
		return "✗ "
	case Doubt:
		return "! "
	case Plain, Good, Quiet:
	}
	return ""
}
