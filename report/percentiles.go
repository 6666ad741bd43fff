package report

import (
	"github.com/nettoll/nettoll/measure"
)

// percentiles returns the headings of the columns of percentiles, each with its metric.
func percentiles() [][2]string {
	return [][2]string{
		{"p50", "latency_p50"},
		{"p90", "latency_p90"},
		{"p99", "latency_p99"},
		{"p99.9", "latency_p999"},
		{"max", "latency_max"},
	}
}

// percentilesPart returns a folded part with the percentiles of latency of all stacks side by side. The values are
// those in the tables of the groups. It returns false if no group has more than a median.
func (v *Reading) percentilesPart() (Part, bool) {
	p := Part{Title: "Percentiles of latency", ID: "percentiles", Folded: true}
	for _, g := range v.Groups {
		if t := g.percentiles(); t != nil {
			p.Tables = append(p.Tables, Block{Table: t})
		}
	}
	if p.Tables == nil {
		return p, false
	}
	p.Blocks = []Block{{Text: "A percentile q is shown if there are 100/(1−q) samples."}}
	return p, true
}

// percentiles returns the table of a group; nil if it has no more than a median.
func (g *Group) percentiles() *Table {
	var shown [][2]string
	for _, q := range percentiles() {
		for _, c := range g.Cells {
			if g.value(c, q[1]) != nil {
				shown = append(shown, q)
				break
			}
		}
	}
	if len(shown) < 2 {
		return nil
	}
	t := &Table{Caption: g.Heading(), Columns: []Column{{"stack", false}}}
	for _, q := range shown {
		t.Columns = append(t.Columns, Column{q[0], true})
	}
	for _, c := range g.Cells {
		row := []Field{{Text: StackName(c)}}
		for _, q := range shown {
			f := Field{Text: "–", Tone: Quiet}
			if r := g.value(c, q[1]); r != nil {
				f = Field{Text: Number(r.Value, r.Unit)}
			}
			row = append(row, f)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// value returns the row of a cell in a metric; nil if there is none.
func (g *Group) value(c *measure.Cell, metric string) *measure.Row {
	r := g.Row(c, metric)
	if r == nil || !(r.Value > 0) {
		return nil
	}
	return r
}
