package text

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nettoll/nettoll/report"
)

// style is the look of a piece of text on a terminal with colours.
type style string

// Styles: SGR parameters (ECMA-48, 8.3.117).
const (
	plain style = ""
	bold  style = "1"
	dim   style = "2"
	bad   style = "31"
	good  style = "32"
	doubt style = "33"
)

// field is one field of a table.
type field struct {
	text  string
	style style
	right bool // right-aligned
}

// wide returns the number of columns of a text. All characters printed here are one column wide.
func wide(s string) int { return utf8.RuneCountInString(s) }

// page collects lines of at most a width.
type page struct {
	strings.Builder
	color bool
	width int
}

const usualWidth = 100

func newPage(o report.Options) *page {
	if o.Width <= 0 {
		o.Width = usualWidth
	}
	return &page{color: o.Color, width: o.Width}
}

func (p *page) paint(s string, st style) string {
	if !p.color || st == plain || s == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

func (p *page) line(s string, st style) {
	p.WriteString(p.paint(s, st))
	p.WriteByte('\n')
}

func (p *page) blank() { p.WriteByte('\n') }

// readable is the largest width of prose, on any terminal.
const readable = 110

// prose writes a paragraph, broken between words: first begins its first line, rest the others. A word that is too long
// for a line is not broken, so that it can be searched for and copied.
func (p *page) prose(first, rest, text string, st style) {
	lines := wrap(text, min(p.width, readable)-max(wide(first), wide(rest)))
	for i, l := range lines {
		if i == 0 {
			p.line(first+l, st)
		} else {
			p.line(rest+l, st)
		}
	}
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, w := range report.Words(text) {
		switch {
		case line == "":
			line = w
		case wide(line)+1+wide(w) <= width:
			line += " " + w
		default:
			lines = append(lines, line)
			line = w
		}
	}
	return append(lines, line)
}

// table writes rows whose first field is a label. If they are too wide for the page, long labels get lines of their
// own; if that is not enough, each row becomes a paragraph.
func (p *page) table(rows [][]field) {
	if width(rows, wide) > p.width {
		rest := width(rows, func(string) int { return 0 })
		room := max(p.width-rest, 4)
		var split [][]field
		for _, r := range rows {
			if wide(r[0].text) <= room {
				split = append(split, r)
				continue
			}
			r = slices.Clone(r)
			split = append(split, []field{r[0]})
			r[0].text = strings.Repeat(" ", indent)
			split = append(split, r)
		}
		if rest+room > p.width {
			p.stack(rows)
			return
		}
		rows = split
	}
	columns := widths(rows)
	for _, r := range rows {
		var b strings.Builder
		gap := ""
		b.WriteString(strings.Repeat(" ", indent))
		for i, f := range r {
			space := ""
			if n := columns[i] - wide(f.text); n > 0 && len(r) > 1 {
				space = strings.Repeat(" ", n)
			}
			b.WriteString(gap)
			gap = strings.Repeat(" ", between)
			if f.right {
				b.WriteString(space)
				space = ""
			}
			b.WriteString(p.paint(f.text, f.style))
			gap = space + gap
			if f.text == "" {
				continue
			}
			p.WriteString(b.String())
			b.Reset()
		}
		p.WriteByte('\n')
	}
}

const (
	indent  = 2 // columns before a table
	between = 2 // columns between its fields

	space = "  " // before the lines that belong to a table
)

// width returns the width of a table whose labels are as wide as label returns.
func width(rows [][]field, label func(string) int) int {
	n := 0
	for i, w := range widths(rows) {
		if i == 0 {
			w = 0
			for _, r := range rows {
				w = max(w, label(r[0].text))
			}
		}
		n += w + between
	}
	return n - between + indent
}

// widths returns the widths of the columns. A row of one field spans all of them.
func widths(rows [][]field) []int {
	var list []int
	for _, r := range rows {
		for i, f := range r {
			if len(list) <= i {
				list = append(list, 0)
			}
			if len(r) > 1 {
				list[i] = max(list[i], wide(f.text))
			}
		}
	}
	return list
}

// stack writes each row but the heading as a paragraph.
func (p *page) stack(rows [][]field) {
	for _, r := range rows[1:] {
		p.line(strings.Repeat(" ", indent)+r[0].text, r[0].style)
		var texts []string
		for i, f := range r[1:] {
			t := strings.TrimSpace(f.text)
			if t == "" {
				continue
			}
			if h := strings.TrimSpace(rows[0][i+1].text); h != "" && h != "verdict" {
				t = h + " " + t
			}
			texts = append(texts, t)
		}
		if len(texts) > 0 {
			inner := space + space
			p.prose(inner, inner, strings.Join(texts, ", "), plain)
		}
	}
}
