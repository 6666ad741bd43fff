package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/nettoll/nettoll/report/figure"
)

// Markdown writes a run as GitHub Flavored Markdown (github.github.com/gfm), for a README or an issue: what the page
// says, without its figures.
func Markdown(w io.Writer, d *Data, o Options) error {
	v := newView(d.Run, d.Analysis, o)
	doc := v.document(charts{groups: make([][]figure.Figure, len(v.groups))}, o.Sections)
	m := &markdown{}
	m.document(doc)
	if _, err := io.WriteString(w, m.String()); err != nil {
		return fmt.Errorf("write markdown: %w", err)
	}
	return nil
}

type markdown struct{ strings.Builder }

// said makes a text of Markdown: what would be markup is escaped (GFM, 2.4 backslash escapes), characters of HTML too.
func said(s string) string {
	s = printable(s)
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
				b.WriteByte('\\') // a heading, a list or a rule
			}
		case '@', ':': // neither mentions nor links
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

// heavy makes a text bold.
func heavy(s string) string { return "**" + said(s) + "**" }

func (m *markdown) paragraph(s string) { m.WriteString(s + "\n\n") }

func (m *markdown) document(d document) {
	m.paragraph("# " + said(d.title))
	if d.subtitle != "" {
		m.paragraph(said(d.subtitle))
	}
	m.blocks(d.standing)
	for _, s := range d.answer {
		m.WriteString("- " + heavy(s) + "\n")
	}
	m.WriteByte('\n')
	m.blocks(d.sure)
	for _, s := range d.sections {
		m.part(s, 2)
	}
}

func (m *markdown) part(s part, level int) {
	if s.folded {
		// markup as far as the empty line
		m.paragraph("<details><summary>" + escaped(strings.TrimSuffix(s.title+" – "+s.note, " – ")) + "</summary>")
	} else {
		m.paragraph(strings.Repeat("#", level) + " " + said(s.title))
	}
	m.blocks(s.blocks)
	m.blocks(s.tables)
	for _, it := range s.lists {
		m.WriteString("- " + mark(it.tone) + said(it.text) + "\n")
		for _, text := range it.sub {
			m.WriteString("  - " + said(text) + "\n")
		}
	}
	if len(s.lists) > 0 {
		m.WriteByte('\n')
	}
	if s.code != "" {
		m.code(s.code)
	}
	for _, x := range s.parts {
		m.part(x, level+1)
	}
	if s.folded {
		m.paragraph("</details>")
	}
}

// code writes a fenced block whose fence is longer than any in the text.
func (m *markdown) code(text string) {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = printable(l)
	}
	m.paragraph(fence + "\n" + strings.Join(lines, "\n") + "\n" + fence)
}

func (m *markdown) blocks(list []Block) {
	for _, b := range list {
		if b.Table != nil {
			m.table(b.Table)
			continue
		}
		m.paragraph(mark(b.Tone) + said(b.Text))
	}
}

func (m *markdown) table(t *Table) {
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
			if tone := r[i].Tone; fields[i] != "" && (tone == Good || tone == Bad || tone == Doubt) {
				fields[i] = heavy(r[i].Text)
			}
		}
		row(fields)
	}
	m.WriteByte('\n')
}
