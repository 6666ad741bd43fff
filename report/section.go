package report

// Section is a part of a report: a title and its contents. A caller may add sections of its own ([Options]); every view
// for people shows them after the answer. Texts are plain: each view escapes them for its format.
type Section struct {
	Title  string
	Detail bool // shown on request: folded, and in text only with Options.All
	Blocks []Block
}

// Grid is a table with a short form, for narrow views, and notes below it. Middle is a form between the two; nil if
// there is none.
type Grid struct {
	Table, Middle, Short *Table
	Notes                []string
}

// Block is a paragraph, a table, a figure or a picture of a matrix. Only views with figures show the figure.
type Block struct {
	Text    string // a paragraph; "" if it is something else
	Tone    Tone   // of the paragraph
	Table   *Table
	Plot    *Plot
	Picture *Picture
}

// Table is a table with a heading. Every row has a field for each column; the first names the row.
type Table struct {
	Caption string // "" if the title of its section says enough
	Columns []Column
	Rows    [][]Field
}

// Column is the heading of a column.
type Column struct {
	Title string
	Right bool // right-aligned, for numbers
}

// Field is one field of a table.
type Field struct {
	Text string
	Tone Tone
}

// Tone is the meaning of a text beyond its words. No view shows it by colour alone.
type Tone string

// Tones.
const (
	Plain Tone = ""
	Good  Tone = "good"
	Bad   Tone = "bad"
	Doubt Tone = "doubt"
	Quiet Tone = "quiet" // of less importance
)

// Mark returns a character with the meaning of the tone, for views without colour.
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
