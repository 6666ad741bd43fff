package markdown

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/nettoll/nettoll/report"
)

// Write writes a run as GitHub Flavored Markdown (github.github.com/gfm), for a README or an issue: the contents of the
// page, without its figures.
func Write(w io.Writer, d *report.Data, o report.Options) error {
	m := &markdown{}
	m.document(d.Read().Document(o.Sections))
	if _, err := io.WriteString(w, m.String()); err != nil {
		return fmt.Errorf("write markdown: %w", err)
	}
	return nil
}

// topLevel is the level of the headings in a comment.
const topLevel = 3

// WriteCompared writes the changes from one run to others, for a comment on a pull request.
func WriteCompared(w io.Writer, l report.Comparisons, all bool) error {
	v, m := l.Comparison(all), &markdown{}
	for _, s := range v.Standing {
		m.blocks([]report.Block{{Text: s, Tone: report.Bad}})
	}
	m.paragraph(heavy(v.Answer[0]))
	for _, text := range v.Answer[1:] {
		m.WriteString("- " + said(text) + "\n")
	}
	if len(v.Answer) > 1 {
		m.WriteByte('\n')
	}
	for _, text := range v.Subject {
		m.paragraph(said(text))
	}
	for _, g := range v.Groups {
		p := report.Part{Title: g.Heading}
		for _, t := range g.Grids {
			p.Tables = append(p.Tables, report.Block{Table: t.Table})
			if len(t.Notes) > 0 {
				p.Tables = append(p.Tables, report.Block{Text: strings.Join(t.Notes, "; "), Tone: report.Quiet})
			}
		}
		m.part(p, topLevel)
	}
	if len(v.Doubts) > 0 {
		m.part(report.Part{Title: "Doubts", Lists: report.Items(v.Doubts, report.Doubt)}, topLevel)
	}
	m.part(report.Part{Title: "Runs", Lists: report.Items(v.Origins, report.Plain)}, topLevel)
	if _, err := io.WriteString(w, strings.TrimRight(m.String(), "\n")+"\n"); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

type markdown struct{ strings.Builder }

// said returns a text with everything escaped that would be markup in Markdown (GFM, 2.4 backslash escapes) or HTML.
func said(s string) string {
	s = report.Printable(s)
	var b strings.Builder
	for i, r := range s {
		switch r {
		case '\\', '`', '*', '_', '[', ']', '|', '~', '$':
			b.WriteByte('\\')
		case '<':
			b.WriteString("&lt;")
			continue
		case '>':
			b.WriteString("&gt;")
			continue
		case '&':
			b.WriteString("&amp;")
			continue
		case '#', '+', '-', '=':
			if next := s[min(i+1, len(s)):]; i == 0 && (r == '#' || next == "" || next[0] == ' ' || next[0] == s[0]) {
				b.WriteByte('\\') // would be a heading, a list or a rule
			}
		case '@', ':': // would be a mention or a link
			if next := s[i+len(string(r)):]; r == '@' || strings.HasPrefix(next, "//") {
				b.WriteRune(r)
				b.WriteString("&#8203;")
				continue
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}

// inline returns a text for use within HTML.
func inline(s string) string {
	return strings.ReplaceAll(html.EscapeString(report.Printable(s)), " %", "\u00a0%")
}

// heavy returns a text in bold.
func heavy(s string) string { return "**" + said(s) + "**" }

func (m *markdown) paragraph(s string) { m.WriteString(s + "\n\n") }

func (m *markdown) document(d report.Document) {
	m.paragraph("# " + said(d.Title))
	if d.Subtitle != "" {
		m.paragraph(said(d.Subtitle))
	}
	m.blocks(d.Standing)
	for _, s := range d.Answer {
		m.WriteString("- " + heavy(s) + "\n")
	}
	m.WriteByte('\n')
	m.blocks(d.Sure)
	for _, s := range d.Sections {
		m.part(s, 2)
	}
}

func (m *markdown) part(s report.Part, level int) {
	if s.OnlyFigures() {
		return
	}
	if s.Folded {
		// This is HTML up to the empty line.
		m.paragraph("<details><summary>" + inline(strings.TrimSuffix(s.Title+" – "+s.Note, " – ")) + "</summary>")
	} else {
		m.paragraph(strings.Repeat("#", level) + " " + said(s.Title))
	}
	m.blocks(s.Blocks)
	m.blocks(s.Tables)
	for _, it := range s.Lists {
		m.WriteString("- " + it.Tone.Mark() + said(it.Text) + "\n")
		for _, text := range it.Sub {
			m.WriteString("  - " + said(text) + "\n")
		}
	}
	if len(s.Lists) > 0 {
		m.WriteByte('\n')
	}
	if s.Code != "" {
		m.code(s.Code)
	}
	for _, x := range s.Parts {
		m.part(x, level+1)
	}
	if s.Folded {
		m.paragraph("</details>")
	}
}

// code writes a fenced block. Its fence is longer than any in the text.
func (m *markdown) code(text string) {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = report.Printable(l)
	}
	m.paragraph(fence + "\n" + strings.Join(lines, "\n") + "\n" + fence)
}

func (m *markdown) blocks(list []report.Block) {
	for _, b := range list {
		if b.Table != nil {
			m.table(b.Table)
			continue
		}
		if b.Picture != nil {
			m.table(b.Picture.Table())
			continue
		}
		m.paragraph(b.Tone.Mark() + said(b.Text))
	}
}

func (m *markdown) table(t *report.Table) {
	if t.Caption != "" {
		m.paragraph(heavy(t.Caption))
	}
	row := func(fields []string) { m.WriteString("| " + strings.Join(fields, " | ") + " |\n") }
	heads, rules := make([]string, len(t.Columns)), make([]string, len(t.Columns))
	for i, c := range t.Columns {
		heads[i], rules[i] = said(c.Title), "---"
		if c.Right {
			rules[i] = "--:"
		}
	}
	row(heads)
	row(rules)
	for _, r := range t.Rows {
		fields := make([]string, len(t.Columns))
		for i := range min(len(r), len(fields)) {
			fields[i] = said(r[i].Text)
			if tone := r[i].Tone; fields[i] != "" && (tone == report.Good || tone == report.Bad || tone == report.Doubt) {
				fields[i] = heavy(r[i].Text)
			}
		}
		row(fields)
	}
	m.WriteByte('\n')
}
