package text

import (
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// important lists the metrics that a table shows beside the primary one, unless [beside] excludes them.
func important() []string {
	return []string{
		"goodput", "packet_rate", "transaction_rate", "connection_rate", "loss", "errors", "latency_mean", "latency_p50",
		"latency_p99", "oneway_latency_p50", "oneway_latency_p99",
		"jitter", "startup_delay", "stall_share",
		"cpu_user", "cpu_system", "cpu_per_packet", "cpu_per_transaction", "service_demand", "retransmits", "memory",
		"setup_time", "first_packet_latency",
	}
}

// beside reports whether an important metric adds something to the others of its group. A mean does if the primary
// metric is not a latency; CPU time inside and outside of the kernel does if both are known.
func beside(g *report.Group, metric string) bool {
	switch metric {
	case g.Primary.Name:
		return false
	case "latency_mean":
		return !strings.HasPrefix(g.Primary.Name, "latency_")
	case "cpu_user":
		return has(g, "cpu_system")
	}
	return true
}

// has reports whether a cell of the group has a metric.
func has(g *report.Group, metric string) bool {
	return slices.ContainsFunc(g.Cells, func(c *measure.Cell) bool { return g.Row(c, metric) != nil })
}

// unsaid reports whether a column of zeros has no information: errors, and losses of datagrams that are answered. The
// loss of datagrams that are not answered is one of the results.
func unsaid(g *report.Group, metric string) bool {
	return metric == "errors" || metric == "loss" && !has(g, "jitter")
}

// longName is the length of a name up to which columns stand beside it. A longer one gets its own line if the columns
// need the room.
const longName = 20

// secondary writes the important metrics beside the primary one, in as many tables as the width requires.
func (p *page) secondary(g *report.Group) {
	var columns [][]field
	brackets := false
	for _, metric := range important() {
		if !beside(g, metric) {
			continue
		}
		column, b := columnOf(g, metric)
		if column != nil {
			columns = append(columns, column)
			brackets = brackets || b
		}
	}
	if len(columns) == 0 {
		return
	}
	names := make([]field, 1+len(g.Cells))
	for i, c := range g.Cells {
		names[i+1].text = report.StackName(c)
	}
	for len(columns) > 0 {
		rows := transpose(names, columns[:1])
		n := 1
		for ; n < len(columns); n++ {
			more := transpose(names, columns[:n+1])
			if width(more, func(s string) int { return min(wide(s), longName) }) > p.width {
				break
			}
			rows = more
		}
		columns = columns[n:]
		p.blank()
		p.table(rows)
	}
	if brackets {
		p.prose(space, space+space, "(in brackets: no difference, or not decided)", dim)
	}
}

// columnOf returns the column of a metric, values with their changes, and reports whether a change is in brackets. It
// returns nil if the column has no information.
func columnOf(g *report.Group, metric string) (column []field, brackets bool) {
	type part struct{ value, change string }
	parts := make([]part, len(g.Cells))
	styles := make([]style, len(g.Cells))
	some := false
	var values int
	var about measure.Metric
	for i, c := range g.Cells {
		r := g.Row(c, metric)
		if r == nil || r.Verdict.Failed() {
			parts[i].value = "–"
			continue
		}
		about = r.About
		some = some || r.Value != 0 || !unsaid(g, metric) // zeros alone are not shown
		parts[i].value = report.Number(r.Value, r.Unit)
		point, _ := report.Change(r)
		switch {
		case measure.Differs(r.Verdict):
			styles[i] = styleOf(report.Verdict(r.Verdict, r.About, false).Tone)
		case point != "":
			point, brackets, styles[i] = "("+point+")", true, dim
		}
		parts[i].change = point
	}
	if !some {
		return nil, false
	}
	for _, p := range parts {
		values = max(values, wide(p.value))
	}
	column = []field{{text: report.Label(about), style: dim}}
	for i, p := range parts {
		text := strings.Repeat(" ", values-wide(p.value)) + p.value
		if p.change != "" {
			gap := " "
			if brackets && p.change[0] != '(' {
				gap = "  "
			}
			text += gap + p.change
		}
		column = append(column, field{text: text, style: styles[i]})
	}
	return column, brackets
}

func transpose(names []field, columns [][]field) [][]field {
	rows := make([][]field, len(names))
	for i := range names {
		rows[i] = []field{names[i]}
		for _, c := range columns {
			rows[i] = append(rows[i], c[i])
		}
	}
	return rows
}
