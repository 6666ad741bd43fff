package study

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/nettoll/nettoll/measure"
)

// Units that package measure does not define.
const (
	unitPacket = "packet"
	unitRatio  = "1"
)

// A Metric describes a metric of a study.
type Metric struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Summary describes the metric in one line.
	Summary string `json:"summary"`
	ratio   bool   // its ratio to the baseline has a meaning
}

// A point is the value of a metric in one round, of a name with a count: a tunnel between 2 hosts, or a runtime with 10
// containers.
type point struct {
	round  int
	name   string
	count  int
	metric string
	value  float64
}

// A sum sums up the rounds of one name and count in one metric.
type sum struct {
	name                string
	count               int
	metric              Metric
	median, least, most float64
	rounds              int
	// ratio is the median of the ratios to the baseline in the same round, 0 if there is none.
	ratio float64
}

// sumUp sums up the rounds: a sum for each metric, count and name that has a value, in this order. Ratios are to the
// name base.
func sumUp(metrics []Metric, names []string, counts []int, base string, points []point) []sum {
	var list []sum
	for _, m := range metrics {
		for _, count := range counts {
			for _, name := range names {
				var values, ratios []float64
				for _, p := range points {
					if p.name != name || p.count != count || p.metric != m.Name {
						continue
					}
					values = append(values, p.value)
					of := slices.IndexFunc(points, func(o point) bool {
						return o.name == base && o.round == p.round && o.count == count && o.metric == m.Name
					})
					if m.ratio && name != base && of >= 0 && points[of].value > 0 {
						ratios = append(ratios, p.value/points[of].value)
					}
				}
				if len(values) == 0 {
					continue
				}
				one := sum{
					name: name, count: count, metric: m, median: measure.Median(values),
					least: slices.Min(values), most: slices.Max(values), rounds: len(values),
				}
				if len(ratios) > 0 {
					one.ratio = measure.Median(ratios)
				}
				list = append(list, one)
			}
		}
	}
	return list
}

// tables writes a table for each metric that has a value: a row for each name, and columns for each count of what is
// counted. Ratios stand below the name base.
func tables(b *strings.Builder, sums []sum, metrics []Metric, names []string, counts []int, counted, base string) {
	longest := 0
	for _, name := range names {
		longest = max(longest, utf8.RuneCountInString(name))
	}
	for _, m := range metrics {
		rows := slices.DeleteFunc(slices.Clone(sums), func(s sum) bool { return s.metric.Name != m.Name })
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(b, "%s: %s\n", m.Name, m.Summary)
		some := slices.DeleteFunc(slices.Clone(counts), func(n int) bool {
			return !slices.ContainsFunc(rows, func(r sum) bool { return r.count == n })
		})
		t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(t, left("", longest))
		for _, n := range some {
			unit := counted
			if n == 1 {
				unit = strings.TrimSuffix(counted, "s")
			}
			fmt.Fprintf(t, "\t%d %s", n, unit)
			if m.ratio {
				fmt.Fprintf(t, "\t:%s", base)
			}
			fmt.Fprint(t, "\tleast\tmost")
		}
		fmt.Fprintln(t, "\t")
		for _, name := range names {
			if !slices.ContainsFunc(rows, func(r sum) bool { return r.name == name }) {
				continue
			}
			fmt.Fprint(t, left(name, longest))
			for _, n := range some {
				i := slices.IndexFunc(rows, func(r sum) bool { return r.name == name && r.count == n })
				var cells [4]string
				if i >= 0 {
					r := rows[i]
					cells = [4]string{show(r.median, m.Unit), "", show(r.least, m.Unit), show(r.most, m.Unit)}
					if r.ratio > 0 {
						cells[1] = fmt.Sprintf("×%.3g", r.ratio)
					}
				}
				for k, text := range cells {
					if k != 1 || m.ratio {
						fmt.Fprintf(t, "\t%s", text)
					}
				}
			}
			fmt.Fprintln(t, "\t")
		}
		_ = t.Flush() // to memory
		b.WriteByte('\n')
	}
}

// left pads a text to that length, because the columns of the table are aligned right.
func left(s string, length int) string {
	return "  " + s + strings.Repeat(" ", max(0, length-utf8.RuneCountInString(s)))
}

// show writes a value with its unit.
func show(x float64, unit string) string {
	switch unit {
	case measure.UnitCores:
		return fmt.Sprintf("%.2g %%", 100*x)
	case unitPacket:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case unitRatio:
		return fmt.Sprintf("%.3g", x)
	}
	return measure.Format(x, unit)
}
