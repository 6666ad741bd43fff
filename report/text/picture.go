package text

import "github.com/nettoll/nettoll/report"

// picture writes who reached whom as lines of symbols.
func (p *page) picture(x *report.Picture) {
	p.prose(space, space, x.Caption, bold)
	for _, l := range x.Lines() {
		p.line(space+l, plain)
	}
}
