package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/nettoll/nettoll/report/figure"
)

//go:embed html.css
var styleSheet string

// policy is the content security policy of the page: nothing is loaded and nothing is executed.
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

// HTML writes a run as one page that needs nothing else: no script, no font, no image, no network. It follows the
// reader's choice of light or dark, fits a phone and can be printed. Every figure says in words what it shows.
func HTML(w io.Writer, d *Data, o Options) error {
	v := newView(d.Run, d.Analysis, o)
	doc := v.document(v.charts(d.Log), o.Sections)
	p := &pageHTML{}
	p.document(doc)
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write html: %w", err)
	}
	return nil
}

// PageFile is the name of the page in a run directory.
const PageFile = "report.html"

// WritePage writes the page of a run into a file, which it replaces.
func WritePage(path string, d *Data, o Options) error {
	if err := writeFile(path, func(w io.Writer) error { return HTML(w, d, o) }); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// pageHTML gathers a page. Everything that is not markup of this file goes through text or attr.
type pageHTML struct {
	strings.Builder
	figures int
}

func (p *pageHTML) raw(parts ...string) {
	for _, s := range parts {
		p.WriteString(s)
	}
}

// escaped is a text as markup. A number and its % stay on one line.
func escaped(s string) string {
	return strings.ReplaceAll(html.EscapeString(printable(s)), " %", "\u00a0%")
}

// element writes an element that holds a text; attributes are markup.
func (p *pageHTML) element(name, attributes, text string) {
	p.raw("<", name, attributes, ">", escaped(text), "</", name, ">")
}

func (p *pageHTML) document(d document) {
	p.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>",
		`<meta http-equiv="Content-Security-Policy" content="`, html.EscapeString(policy), `"/>`,
		`<meta name="viewport" content="width=device-width, initial-scale=1"/><meta name="color-scheme" content="light dark"/><meta name="referrer" content="no-referrer"/>`)
	p.element("title", "", d.title+" – nettoll report")
	p.raw("<style>:root{", figure.Light(), "}@media screen and (prefers-color-scheme:dark){:root{", figure.Dark(), "}}",
		figure.Style(), styleSheet, "</style></head>\n<body><header>")
	p.raw(`<p class="kind">nettoll report</p>`)
	p.element("h1", "", d.title)
	p.element("p", ` class="quiet"`, d.subtitle)
	p.blocks(d.standing)
	few := ` class="few"`
	if len(d.answer) > mostSentences {
		few = ""
	}
	p.raw("</header>\n<main><section id=\"answer\" class=\"answer\"><h2>The answer</h2><ul", few, ">")
	for _, s := range d.answer {
		p.element("li", "", s)
	}
	p.raw("</ul>")
	p.blocks(d.sure)
	p.raw("</section>\n")
	for _, s := range d.sections {
		p.part(s, 2)
	}
	p.raw("</main></body></html>\n")
}

// part writes a part with its title as a heading of a level, folded if it is to be.
func (p *pageHTML) part(s part, level int) {
	id := ""
	if s.id != "" {
		id = ` id="` + html.EscapeString(s.id) + `"`
	}
	h := fmt.Sprintf("h%d", level)
	if s.folded {
		if s.open {
			id += ` open="open"`
		}
		p.raw("<details", id, "><summary>")
		p.element(h, "", s.title)
		if s.note != "" {
			p.element("span", ` class="quiet"`, s.note)
		}
		p.raw("</summary>")
	} else {
		p.raw("<section", id, ">")
		p.element(h, "", s.title)
	}
	p.blocks(s.blocks)
	if len(s.figures) > 0 {
		p.raw(`<div class="figures">`)
		for _, f := range s.figures {
			p.figures++
			p.raw("<figure>", f.SVG(fmt.Sprintf("f%d", p.figures)), "</figure>")
		}
		p.raw("</div>")
	}
	p.blocks(s.tables)
	if len(s.lists) > 0 {
		p.raw("<ul>")
		for _, it := range s.lists {
			p.raw("<li", class(it.tone), ">", mark(it.tone), escaped(it.text))
			if it.sub != nil {
				p.raw("<ul>")
				for _, text := range it.sub {
					p.element("li", "", text)
				}
				p.raw("</ul>")
			}
			p.raw("</li>")
		}
		p.raw("</ul>")
	}
	if s.code != "" {
		lines := strings.Split(strings.TrimRight(s.code, "\n"), "\n")
		for i, l := range lines {
			lines[i] = escaped(l)
		}
		p.raw(`<pre tabindex="0">`, strings.Join(lines, "\n"), "</pre>")
	}
	for _, x := range s.parts {
		p.part(x, level+1)
	}
	if s.folded {
		p.raw("</details>\n")
	} else {
		p.raw("</section>\n")
	}
}

func class(t Tone) string {
	if t == Plain {
		return ""
	}
	return ` class="` + string(t) + `"`
}

// mark says in a character what a tone says in colour.
func mark(t Tone) string {
	switch t {
	case Bad:
		return "✗ "
	case Doubt:
		return "! "
	case Plain, Good, Quiet:
	}
	return ""
}

func (p *pageHTML) blocks(list []Block) {
	for _, b := range list {
		if b.Table != nil {
			p.table(b.Table)
			continue
		}
		p.raw("<p", class(b.Tone), ">", mark(b.Tone), escaped(b.Text), "</p>")
	}
}

// table writes a table. On a narrow screen the style sheet makes a card of each row, in which every field has its
// column's title before it.
func (p *pageHTML) table(t *Table) {
	p.raw(`<div class="table"><table>`)
	if t.Caption != "" {
		p.element("caption", "", t.Caption)
	}
	p.raw("<thead><tr>")
	for _, c := range t.Columns {
		p.element("th", ` scope="col"`+right(c), c.Title)
	}
	p.raw("</tr></thead><tbody>")
	for _, r := range t.Rows {
		p.raw("<tr>")
		for i, c := range t.Columns {
			var f Field
			if i < len(r) {
				f = r[i]
			}
			if i == 0 {
				p.raw(`<th scope="row">`, breakable(f.Text), "</th>")
				continue
			}
			classes := strings.TrimSpace(string(f.Tone) + map[bool]string{true: " r"}[c.Right])
			attributes := ""
			if classes != "" {
				attributes = ` class="` + classes + `"`
			}
			if f.Text != "" {
				attributes += ` data-l="` + escaped(c.Title) + `"`
			}
			p.element("td", attributes, f.Text)
		}
		p.raw("</tr>")
	}
	p.raw("</tbody></table></div>")
}

// breakable is the name of a stack or cell as markup that may be broken between its parts.
func breakable(s string) string {
	return strings.NewReplacer("+", "+<wbr/>", ",", ",<wbr/>", "/", "/<wbr/>").Replace(escaped(s))
}

func right(c Column) string {
	if c.Right {
		return ` class="r"`
	}
	return ""
}
