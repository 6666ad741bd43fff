package page

import "github.com/nettoll/nettoll/report"

// picture writes who reached whom as squares, each with a symbol and, for those who point at it or listen, its meaning.
func (p *pageHTML) picture(x *report.Picture) {
	p.raw(`<div class="table"><table class="matrix">`)
	p.element("caption", "", x.Caption)
	p.raw("<thead><tr><td></td>")
	for _, name := range x.Columns {
		p.raw(`<th scope="col"><span>`, escaped(name), "</span></th>")
	}
	p.raw("</tr></thead><tbody>")
	for i, name := range x.Rows {
		p.raw("<tr>")
		p.element("th", ` scope="row"`, name)
		for k, r := range x.Cells[i] {
			said := name + " to " + x.Columns[k] + ": " + report.ReachWords(r)
			p.element("td", ` class="m`+escaped(string(rune(r)))+`" title="`+escaped(said)+`"`, report.Symbol(r))
		}
		p.raw("</tr>")
	}
	p.raw("</tbody></table></div>")
}
