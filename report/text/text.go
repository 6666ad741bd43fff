package text

import (
	"fmt"
	"io"

	"github.com/nettoll/nettoll/report"
)

// Write writes a run for people: first the cost of each stack, in a sentence; then a table for each group of cells,
// with the noise floor; then how much was measured, failures, doubts and proofs. The text ends in a newline, and no
// line ends in a space.
func Write(w io.Writer, d *report.Data, o report.Options) error {
	v, p := d.Read(), newPage(o)
	p.standing(d.Standing())
	for _, s := range v.Answer() {
		p.prose("", "  ", s, bold)
	}
	for _, s := range v.Undecided() {
		p.prose("! ", "  ", s, doubt)
	}
	for _, s := range o.Sections {
		if !s.Detail || o.All {
			p.section(s)
		}
	}
	if s, ok := v.Beside(); ok {
		p.section(s)
	}
	for _, c := range v.Curves() {
		p.section(report.Section{Title: c.Name() + ": " + c.Heading, Blocks: c.Tables()})
	}
	for _, g := range v.Groups {
		p.group(g.Title(), v.Grids(g, o.All))
		if !o.All {
			p.secondary(g)
		}
	}
	if s, ok := v.Probes(); ok {
		p.section(s)
	}
	if s, ok := v.Proved(o.All); ok {
		p.section(s)
	}
	if s, ok := v.Labs(o.All); ok {
		p.section(s)
	}
	if s, ok := v.Nodes(); ok {
		p.section(s)
	}
	p.blank()
	p.prose("", "", v.Measured(), plain)
	if on := v.Circumstances(); on != "" && d.Analysis.Trials > 0 {
		p.prose("", "", on, dim)
	}
	p.failures(v.Failures())
	p.doubts(v.Doubts(), o.All)
	p.proofs(v.Claims(), o.All)
	p.blank()
	p.prose("", "", v.End(), bold)
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// WriteCompared writes the changes from one run to others: the sentences, then the tables.
func WriteCompared(w io.Writer, l report.Comparisons, o report.Options) error {
	v, p := l.Comparison(o.All), newPage(o)
	p.standing(v.Standing)
	for _, s := range v.Answer {
		p.prose("", "  ", s, bold)
	}
	for _, s := range v.Subject {
		p.prose("", "  ", s, plain)
	}
	for _, g := range v.Groups {
		p.group(g.Title, g.Grids)
	}
	p.blank()
	for _, s := range v.Origins {
		p.prose("", space+space+" ", s, dim)
	}
	if len(v.Doubts) > 0 {
		p.blank()
		for _, d := range v.Doubts {
			p.prose("! ", "  ", d, doubt)
		}
	}
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

func (p *page) standing(list []string) {
	for _, s := range list {
		p.prose("✗ ", "  ", s, bad)
	}
}

// group writes the tables of a group below its title, in their short forms if the long ones are too wide.
func (p *page) group(title string, grids []report.Grid) {
	p.blank()
	if wide(title) > p.width {
		p.prose("", space, title, bold)
	} else {
		p.line(title, bold)
	}
	for i, g := range grids {
		if g.Table.Caption != "" {
			if i > 0 {
				p.blank()
			}
			p.prose(space, space, g.Table.Caption, bold)
		}
		rows := fields(g.Table)
		if width(rows, wide) > p.width {
			if head := rows[0][0].text; head != "" {
				p.prose(space, space, head, dim)
			}
			if g.Middle != nil {
				rows = fields(g.Middle)
			}
			if g.Middle == nil || width(rows, wide) > p.width {
				rows = fields(g.Short)
			}
		}
		p.table(rows)
		for _, n := range g.Notes {
			p.prose(space, space+space, n, dim)
		}
	}
}

// section writes a section: its title, paragraphs and tables.
func (p *page) section(s report.Section) {
	p.blank()
	p.prose("", "  ", report.Printable(s.Title), bold)
	for _, b := range s.Blocks {
		if b.Plot != nil {
			continue
		}
		if b.Picture != nil {
			p.picture(b.Picture)
			continue
		}
		if b.Table == nil {
			p.prose("", "", report.Printable(b.Text), styleOf(b.Tone))
			continue
		}
		if b.Table.Caption != "" {
			p.prose(space, space, report.Printable(b.Table.Caption), bold)
		}
		p.table(fields(b.Table))
	}
}

func (p *page) failures(texts []string) {
	if len(texts) > 0 {
		p.blank()
	}
	for _, text := range texts {
		p.prose("✗ ", "  ", text, bad)
	}
}

// mostWarnings is the number of warnings shown unless all are asked for.
const mostWarnings = 12

func (p *page) doubts(texts []string, all bool) {
	if len(texts) > 0 {
		p.blank()
	}
	for i, text := range texts {
		if i == mostWarnings && !all {
			p.prose("! ", "  ", fmt.Sprintf("… and %s (nettoll report --all shows them)",
				report.Count(len(texts)-i, "more warning", "more warnings")), doubt)
			return
		}
		p.prose("! ", "  ", text, doubt)
	}
}

// proofs writes the proofs: a line for each claim, and one for each time it did not hold or that cannot be told.
func (p *page) proofs(claims []report.Claim, all bool) {
	p.blank()
	if len(claims) == 0 {
		p.line("proof: none was recorded", doubt)
		return
	}
	for _, c := range claims {
		mark, times, style := "✗ ", c.Broken, bad
		switch {
		case c.Broken != nil:
		case c.Untold != nil:
			mark, times, style = "? ", c.Untold, doubt
		default:
			p.prose("proof: ", "  ", c.Text, plain)
			continue
		}
		p.prose(mark, "  ", "proof "+c.Text, style)
		for i, text := range times {
			if i == mostWarnings && !all {
				p.line("    …", style)
				break
			}
			p.prose("    ", "      ", text, style)
		}
	}
}

// fields returns the rows of a table, the heading first.
func fields(t *report.Table) [][]field {
	rows := [][]field{make([]field, len(t.Columns))}
	for i, c := range t.Columns {
		rows[0][i] = field{report.Printable(c.Title), dim, c.Right}
	}
	for _, r := range t.Rows {
		row := make([]field, min(len(r), len(t.Columns)))
		for i := range row {
			row[i] = field{report.Printable(r[i].Text), styleOf(r[i].Tone), t.Columns[i].Right}
		}
		rows = append(rows, row)
	}
	return rows
}

// styleOf returns the style of a tone.
func styleOf(t report.Tone) style {
	switch t {
	case report.Good:
		return good
	case report.Bad:
		return bad
	case report.Doubt:
		return doubt
	case report.Quiet:
		return dim
	case report.Plain:
	}
	return plain
}
