package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// Probes returns the section about probed cells: the figures of the probe, and its cost; false if nothing was probed.
// Other figures of probed cells are in no table, because the probe distorts them a little.
func (v *Reading) Probes() (Section, bool) {
	p := v.Run.Probed()
	s := Section{Title: p.Title}
	for _, g := range v.Groups {
		if t := v.probeTable(g, p); t != nil {
			s.Blocks = append(s.Blocks, Block{Table: t})
		}
	}
	if s.Blocks == nil {
		return s, false
	}
	s.Blocks = append([]Block{{
		Text: "In each block every cell except the twins was also measured with " + p.Switches + ". " + p.Meaning +
			". “the probe costs” is by how much the metric of the tables above is worse with the probe, in the same blocks, " +
			"with the 95 % interval. Probed cells have no twins and so no floor and no verdict.",
		Tone: Quiet,
	}}, s.Blocks...)
	return s, true
}

// probeTable returns the table of the probed cells of a group; nil if there are none.
func (v *Reading) probeTable(g *Group, probe measure.Probe) *Table {
	costs := map[string]*measure.ProbeCost{} // by the id of the cell without a probe
	for i := range v.Analysis.Probes {
		p := &v.Analysis.Probes[i]
		costs[p.Cell.Unprobed] = p
	}
	if !slices.ContainsFunc(g.Cells, func(c *measure.Cell) bool { return costs[c.ID] != nil }) {
		return nil
	}
	n := len(probe.Metrics)
	t := &Table{Caption: g.Title(), Columns: []Column{{"", false}}}
	for i, metric := range probe.Metrics {
		m, _ := v.known.Lookup(metric)
		heading := Label(m)
		if i < len(probe.Columns) {
			heading = Printable(probe.Columns[i])
		}
		t.Columns = append(t.Columns, Column{heading, true})
	}
	t.Columns = append(t.Columns, Column{g.Over(), true}, Column{"95 % interval", false}, Column{"the probe costs", false})
	for _, c := range g.Cells {
		p := costs[c.ID]
		if p == nil {
			continue
		}
		row := slices.Concat([]Field{{Text: StackName(c)}}, make([]Field, n), []Field{{}, {}, {"–", Quiet}})
		if n > 0 {
			row[1] = Field{"–", Quiet}
		}
		for i, metric := range probe.Metrics {
			if r := v.probed[p.Cell.ID][metric]; r != nil {
				row[1+i] = Field{Text: Number(r.Value, r.Unit)}
				row[1+n].Text, row[2+n].Text = Change(r) // of the last metric with a value: per packet, if there are packets
			}
		}
		if cost := costOf(p, g.Primary); cost != "" {
			row[3+n] = Field{Text: cost}
		}
		t.Rows = append(t.Rows, row)
	}
	for i := len(t.Columns) - 1; i > 0; i-- { // remove empty columns: a stream has no packets
		if !slices.ContainsFunc(t.Rows, func(r []Field) bool { return r[i].Text != "" }) {
			t.Columns = slices.Delete(t.Columns, i, i+1)
			for j := range t.Rows {
				t.Rows[j] = slices.Delete(t.Rows[j], i, i+1)
			}
		}
	}
	return t
}

// costOf returns by how much a metric is worse with the probe: "3.1 % [2.2, 4.0]"; "" if unknown. The cost is positive
// if a rate falls or a duration grows. A negative cost is chance.
func costOf(p *measure.ProbeCost, m measure.Metric) string {
	sign := 1.0
	if m.Better == measure.HigherBetter {
		sign = -1
	}
	var x, lo, hi float64
	unit := " %"
	switch {
	case p.HasRatio:
		x, lo, hi = 100*sign*(p.Estimate.Ratio-1), 100*sign*(p.Estimate.Lo-1), 100*sign*(p.Estimate.Hi-1)
	case p.HasDifference && p.Unit == measure.UnitShare:
		x, lo, hi, unit = 100*sign*p.Difference.Points, 100*sign*p.Difference.Lo, 100*sign*p.Difference.Hi, " points"
	case p.HasDifference:
		x, lo, hi, unit = sign*p.Difference.Points, sign*p.Difference.Lo, sign*p.Difference.Hi, ""
	default:
		return ""
	}
	lo, hi = min(lo, hi), max(lo, hi)
	n := decimals((hi - lo) / 2)
	plain := func(x float64) string { return strings.TrimPrefix(signed(x, n), "+") } // −0 becomes 0
	return fmt.Sprintf("%s%s [%s, %s]", plain(x), unit, plain(lo), plain(hi))
}
