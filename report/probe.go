package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// probeSection has what probed cells tell beyond the others, and beside it what the probe costs; false where nothing was probed. The cells themselves
// are in no table: their other figures are those of the cells without a probe, and somewhat off.
func (v *view) probeSection() (Section, bool) {
	s := Section{Title: "Softirq time, in probed trials"}
	for _, g := range v.groups {
		if t := v.probeTable(g); t != nil {
			s.Blocks = append(s.Blocks, Block{Table: t})
		}
	}
	if s.Blocks == nil {
		return s, false
	}
	// What a thread's run time holds is known where the kernel says how it was built.
	apart := "It is not known whether this kernel counts it in the run time of the thread that was interrupted"
	switch yes, known := v.run.Facts["irq_time_accounting"].(bool); {
	case known && yes:
		apart = "This kernel keeps it out of the run time of threads, unless ksoftirqd did it: the rest comes on top of what is called CPU above"
	case known:
		apart = "This kernel counts it in the run time of the thread that was interrupted: it is a part of what is called CPU above, and does not come on top of it"
	}
	s.Blocks = append([]Block{{
		Text: "Every cell, but for the twins, was measured once more in each block, with tracepoints switched on at the beginning and the end of each soft interrupt. " +
			"Given is the time in those of the network, on the CPUs that sources and sinks run on, whoever they interrupted and whosever packets they were. " + apart +
			". The probe costs what the metric of the tables above is worse by than without it, in the same blocks, with its 95 % interval. " +
			"Where there are no twins there is no floor: of the differences nothing is claimed but their intervals.",
		Tone: Quiet,
	}}, s.Blocks...)
	return s, true
}

// probeTable has the probed cells of a group; nil where there are none.
func (v *view) probeTable(g *group) *Table {
	costs := map[string]*measure.ProbeCost{} // by the cell without
	for i := range v.a.Probes {
		p := &v.a.Probes[i]
		costs[p.Cell.Unprobed] = p
	}
	if !slices.ContainsFunc(g.cells, func(c *measure.Cell) bool { return costs[c.ID] != nil }) {
		return nil
	}
	t := &Table{Caption: g.title(), Columns: []Column{
		{"", false}, {label(probeMetrics()[0]), true}, {"per packet", true}, {g.over(), true}, {"95 % interval", false}, {"the probe costs", false},
	}}
	for _, c := range g.cells {
		p := costs[c.ID]
		if p == nil {
			continue
		}
		row := []Field{{Text: name(c)}, {"–", Quiet}, {}, {}, {}, {"–", Quiet}}
		for i, metric := range probeMetrics() {
			if r := v.probed[p.Cell.ID][metric]; r != nil {
				row[1+i] = Field{Text: number(r.Value, r.Unit)}
				row[3].Text, row[4].Text = change(r) // per packet, where there are packets
			}
		}
		if cost := costOf(p, g.primary); cost != "" {
			row[5] = Field{Text: cost}
		}
		t.Rows = append(t.Rows, row)
	}
	for i := len(t.Columns) - 1; i > 0; i-- { // a stream has no packets
		if !slices.ContainsFunc(t.Rows, func(r []Field) bool { return r[i].Text != "" }) {
			t.Columns = slices.Delete(t.Columns, i, i+1)
			for j := range t.Rows {
				t.Rows[j] = slices.Delete(t.Rows[j], i, i+1)
			}
		}
	}
	return t
}

// probeMetrics are what probed cells have beyond the others.
func probeMetrics() []string { return []string{"cpu_softirq", "softirq_per_packet"} }

// costOf says by how much a metric is worse with the probe: "3.1 % [2.2, 4.0]", "" where that is not known. Of a rate that is what is missing, of a duration what is added;
// a cost below nothing is one that chance has made.
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
	plain := func(x float64) string { return strings.TrimPrefix(signed(x, n), "+") } // and no −0
	return fmt.Sprintf("%s%s [%s, %s]", plain(x), unit, plain(lo), plain(hi))
}
