package page

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/chart"

	_ "embed"

	"github.com/nettoll/nettoll/report/figure"
)

//go:embed page.css
var styleSheet string

// few is the number of sentences of the answer up to which they are set large.
const few = 6

// policy is the content security policy of the page: nothing is loaded and nothing is executed.
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

// Write writes a run as one page that needs nothing else: no script, no font, no image, no network. It follows the
// reader's choice of light or dark, fits a phone and can be printed. Every figure has a description in words.
func Write(w io.Writer, d *report.Data, o report.Options) error {
	v := d.Read()
	p := &pageHTML{charts: chart.Draw(v, d.Log)}
	p.document(v.Document(o.Sections))
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write html: %w", err)
	}
	return nil
}

// pageHTML collects a page. Everything except the markup of this file goes through text or attr.
type pageHTML struct {
	strings.Builder
	charts  chart.Charts
	figures int // number of figures so far
}

func (p *pageHTML) raw(parts ...string) {
	for _, s := range parts {
		p.WriteString(s)
	}
}

// escaped returns a text as markup. A number and its % stay on one line.
func escaped(s string) string {
	return strings.ReplaceAll(html.EscapeString(report.Printable(s)), " %", "\u00a0%")
}

// element writes an element with a text; attributes are markup.
func (p *pageHTML) element(name, attributes, text string) {
	p.raw("<", name, attributes, ">", escaped(text), "</", name, ">")
}

func (p *pageHTML) document(d report.Document) {
	p.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>",
		`<meta http-equiv="Content-Security-Policy" content="`, html.EscapeString(policy), `"/>`,
		`<meta name="viewport" content="width=device-width, initial-scale=1"/><meta name="color-scheme" content="light dark"/><meta name="referrer" content="no-referrer"/>`)
	p.element("title", "", d.Title+" – nettoll report")
	p.raw("<style>:root{", figure.Light(), "}@media screen and (prefers-color-scheme:dark){:root{", figure.Dark(), "}}",
		figure.Style(), styleSheet, "</style></head>\n<body><header>")
	p.raw(`<p class="kind">nettoll report</p>`)
	p.element("h1", "", d.Title)
	p.element("p", ` class="quiet"`, d.Subtitle)
	p.blocks(d.Standing)
	attributes := ` class="few"`
	if len(d.Answer) > few {
		attributes = ""
	}
	p.raw("</header>\n<main><section id=\"answer\" class=\"answer\"><h2>The answer</h2><ul", attributes, ">")
	for _, s := range d.Answer {
		p.element("li", "", s)
	}
	p.raw("</ul>")
	p.blocks(d.Sure)
	p.raw("</section>\n")
	for _, s := range d.Sections {
		p.part(s, 2)
	}
	p.raw("</main></body></html>\n")
}

// part writes a part with its title as a heading of the given level, folded if the part is. If there are several
// groups, the printed page has only their tables: the overview shows their changes.
func (p *pageHTML) part(s report.Part, level int) {
	if s.OnlyFigures() && len(p.charts.Of(s.Figures)) == 0 {
		return
	}
	id := ""
	if s.ID != "" {
		id = ` id="` + html.EscapeString(s.ID) + `"`
	}
	h := fmt.Sprintf("h%d", level)
	if s.Folded {
		p.raw("<details", id, "><summary>")
		p.element(h, "", s.Title)
		if s.Note != "" {
			p.element("span", ` class="quiet"`, s.Note)
		}
		p.raw("</summary>")
	} else {
		p.raw("<section", id, ">")
		p.element(h, "", s.Title)
	}
	p.blocks(s.Blocks)
	if list := p.charts.Of(s.Figures); len(list) > 0 {
		classes := "figures"
		if strings.HasPrefix(s.ID, "group-") && len(p.charts.Of(report.Overview)) > 0 {
			classes += " screen"
		}
		p.raw(`<div class="`, classes, `">`)
		for _, f := range list {
			p.figures++
			p.raw("<figure>", f.SVG(fmt.Sprintf("f%d", p.figures)), "</figure>")
		}
		p.raw("</div>")
		if s.Figures == report.Overview {
			p.element("p", ` class="quiet paper"`, "On paper the groups below have their tables, and no figures of their own.")
		}
	}
	p.blocks(s.Tables)
	if len(s.Lists) > 0 {
		p.raw("<ul>")
		for _, it := range s.Lists {
			p.raw("<li", class(it.Tone), ">", it.Tone.Mark(), escaped(it.Text))
			if it.Sub != nil {
				p.raw("<ul>")
				for _, text := range it.Sub {
					p.element("li", "", text)
				}
				p.raw("</ul>")
			}
			p.raw("</li>")
		}
		p.raw("</ul>")
	}
	if s.Code != "" {
		lines := strings.Split(strings.TrimRight(s.Code, "\n"), "\n")
		for i, l := range lines {
			lines[i] = escaped(l)
		}
		p.raw(`<pre tabindex="0">`, strings.Join(lines, "\n"), "</pre>")
	}
	for _, x := range s.Parts {
		p.part(x, level+1)
	}
	if s.Folded {
		p.raw("</details>\n")
	} else {
		p.raw("</section>\n")
	}
}

func class(t report.Tone) string {
	if t == report.Plain {
		return ""
	}
	return ` class="` + string(t) + `"`
}

func (p *pageHTML) blocks(list []report.Block) {
	for _, b := range list {
		if b.Plot != nil {
			p.figures++
			p.raw(`<div class="figures"><figure>`, chart.Redraw(b.Plot).SVG(fmt.Sprintf("f%d", p.figures)), "</figure></div>")
			continue
		}
		if b.Table != nil {
			p.table(b.Table)
			continue
		}
		if b.Picture != nil {
			p.picture(b.Picture)
			continue
		}
		p.raw("<p", class(b.Tone), ">", b.Tone.Mark(), escaped(b.Text), "</p>")
	}
}

// table writes a table. On a narrow screen, the style sheet makes a card of each row, with the column's title before
// each field.
func (p *pageHTML) table(t *report.Table) {
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
			var f report.Field
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

// breakable returns the name of a stack or cell as markup that may break between its parts.
func breakable(s string) string {
	return strings.NewReplacer("+", "+<wbr/>", ",", ",<wbr/>", "/", "/<wbr/>").Replace(escaped(s))
}

func right(c report.Column) string {
	if c.Right {
		return ` class="r"`
	}
	return ""
}
