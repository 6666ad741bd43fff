package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/nettoll/nettoll/measure"
)

// row is one line of the table.
type row struct {
	what         string
	ours, theirs string
	ratio        string
	goal         string
	met          string
	load         string
}

// table is the result.
type table struct {
	rows  []row
	notes []string
}

func (t *table) add(r row) { t.rows = append(t.rows, r) }

// note adds a line below the table.
func (t *table) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// loaded sets the load average of all rows added since its last call.
func (t *table) loaded(load string) {
	for i := len(t.rows) - 1; i >= 0 && t.rows[i].load == ""; i-- {
		t.rows[i].load = load
	}
}

// print writes the facts, the table and the notes as Markdown.
func (t *table) print(w io.Writer, facts []string) {
	for _, f := range facts {
		fmt.Fprintf(w, "- %s\n", f)
	}
	columns := []string{"what", "nettoll", "other", "ratio [95 %]", "goal", "met", "load average"}
	fmt.Fprintf(w, "\n| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat(" --- |", len(columns)))
	for _, r := range t.rows {
		cells := []string{r.what, r.ours, r.theirs, r.ratio, r.goal, r.met, r.load}
		for i, c := range cells {
			if c == "" {
				cells[i] = "–"
			}
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
	if len(t.notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range t.notes {
		fmt.Fprintf(w, "- %s\n", n)
	}
}

// The answers to whether a goal is met.
const (
	yes  = "yes"
	no   = "no"
	open = "not shown: the interval reaches beyond it"
)

// compared returns the ratio of groups of rounds as text, and whether it is below a limit, or above it if less is
// worse.
func compared(groups [][]float64, limit float64, below bool) (ratio, met string) {
	e, err := measure.EstimateRatio(groups)
	if err != nil {
		return err.Error(), no
	}
	ratio = fmt.Sprintf("%.3f [%.3f, %.3f]", e.Ratio, e.Lo, e.Hi)
	good, bad := e.Hi <= limit, e.Lo > limit
	if !below {
		good, bad = e.Lo >= limit, e.Hi < limit
	}
	switch {
	case good:
		return ratio, yes
	case bad:
		return ratio, no
	}
	return ratio, open
}

// othersFive is how far the figures of two programs that measure the same may differ.
const othersFive = 0.05

// agreed returns the ratio of groups of rounds as text, and whether it differs from 1 by at most othersFive.
func agreed(groups [][]float64) (ratio, met string) {
	ratio, least := compared(groups, 1-othersFive, false)
	_, most := compared(groups, 1+othersFive, true)
	switch {
	case least == yes && most == yes:
		return ratio, yes
	case least == no || most == no:
		return ratio, no
	}
	return ratio, open
}

// within returns whether a value is at most its limit.
func within(value, limit float64) string {
	if value <= limit { // false for NaN: nothing was measured
		return yes
	}
	return no
}

// quantile returns the value that a share q of the sorted values does not exceed. It is NaN for no values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// duration writes seconds with three digits and a unit.
func duration(seconds float64) string {
	if math.IsNaN(seconds) {
		return "not measured"
	}
	d := time.Duration(seconds * float64(time.Second))
	for _, u := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= u.size {
			return digits(float64(d)/float64(u.size)) + " " + u.name
		}
	}
	return fmt.Sprintf("%d ns", d)
}

// packets writes packets per second.
func packets(perSecond float64) string { return digits(perSecond/1e3) + " kpacket/s" }

// perSecond writes events per second.
func perSecond(x float64) string { return digits(x/1e3) + " k/s" }

// bitrate writes bits per second.
func bitrate(bits float64) string { return digits(bits/1e9) + " Gbit/s" }

// digits writes a number with three digits.
func digits(x float64) string {
	switch {
	case math.Abs(x) >= 100:
		return fmt.Sprintf("%.0f", x)
	case math.Abs(x) >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
