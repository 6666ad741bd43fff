package suite

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// figures reads figures.csv: the coordinates of each figure, its value as the paper writes it, and its place in the
// paper. A line that begins with # is a comment.
func (s *Suite) figures(text []byte) ([]Figure, error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	coordinates := s.coordinates()
	want := append(slices.Clone(coordinates), "value", "source")
	if len(rows) < 2 || !slices.Equal(rows[0], want) {
		return nil, fmt.Errorf("missing columns or figures (needed: the columns %s and at least one figure)",
			strings.Join(want, ","))
	}
	numeral := regexp.MustCompile(`^(\d+|\d{1,3}(,\d{3})+)(\.\d+)?$`) // as in papers: 87,263 or 5.690
	var list []Figure
	for _, row := range rows[1:] {
		f := Figure{At: Point{}, Source: row[len(row)-1]}
		for i, k := range coordinates {
			if f.At[k] = row[i]; row[i] == "" {
				return nil, fmt.Errorf("row %q: no value for %s", row, k)
			}
			if err := s.checkCoordinate(k, row[i]); err != nil {
				return nil, err
			}
		}
		f.As = row[len(coordinates)]
		x, err := strconv.ParseFloat(strings.ReplaceAll(f.As, ",", ""), 64)
		if err != nil || !numeral.MatchString(f.As) || !(x > 0) {
			return nil, fmt.Errorf("value %q is not a positive number (valid: 87,263 or 5.690)", f.As)
		}
		f.Value = rounded(x * s.metric(f.At[metricOf]).Unit)
		if f.Source == "" {
			return nil, fmt.Errorf("row %q: no source", row)
		}
		if slices.ContainsFunc(list, func(o Figure) bool { return o.At.equal(f.At) }) {
			return nil, fmt.Errorf("row %q: second figure for the same place", row)
		}
		list = append(list, f)
	}
	return list, nil
}

// rounded rounds a value to 12 digits, to remove the errors of a change of units.
func rounded(x float64) float64 {
	const digits = 12
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil {
		return x
	}
	return y
}

func (s *Suite) metric(name string) Metric {
	i := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Name == name })
	return s.Metrics[i] // names are checked when the suite is read
}

// published returns the figure at a point.
func (s *Suite) published(p Point) (Figure, bool) {
	i := slices.IndexFunc(s.Figures, func(f Figure) bool { return f.At.equal(p) })
	if i < 0 {
		return Figure{Value: math.NaN()}, false
	}
	return s.Figures[i], true
}

// text is a figure as it was published, with the paper's unit.
func (s *Suite) text(f Figure, unit string) string {
	switch m := s.metric(f.At[metricOf]); {
	case m.Of != "":
		return fixed(f.Value, 2) + " of " + m.Of
	case m.In != "":
		return f.As + " " + m.In
	}
	return report.Number(f.Value, unit)
}

func (p Point) equal(o Point) bool { return maps.Equal(p, o) }

// with returns the point with some of its coordinates replaced.
func (p Point) with(o Point) Point {
	q := make(Point, len(p)+len(o))
	maps.Copy(q, p)
	maps.Copy(q, o)
	return q
}

// cross returns every point of a space, with the coordinates in the order given; the last one changes fastest.
func (s Space) cross(order []string) []Point {
	points := []Point{{}}
	for _, k := range order {
		if len(s[k]) == 0 {
			continue
		}
		var next []Point
		for _, p := range points {
			for _, v := range s[k] {
				next = append(next, p.with(Point{k: v}))
			}
		}
		points = next
	}
	return points
}

// property returns the value of a cell on an axis: a property of its own, the part of a kind, or a parameter of its
// workload.
func property(c *measure.Cell, axis string) string {
	switch axis {
	case "placement":
		return c.Placement
	case "pairs":
		return strconv.Itoa(c.Pairs)
	case "family":
		return c.Family
	case "affinity":
		return c.Affinity
	case "workload":
		return c.Workload
	}
	return cmp.Or(c.Part(axis), c.Params[axis])
}

// term returns the term of a metric of a cell, or of its lab, to a power.
func (m Recorded) term(c *measure.Cell, power float64) measure.Term {
	if m.Lab {
		return measure.Term{Lab: c.Lab, Metric: m.Metric, Power: power}
	}
	return measure.Term{Cell: c.ID, Metric: m.metricName(c), Power: power}
}

// metricName returns the name of the metric in the records of a cell. If a cell has one pair, a metric per pair is
// recorded only under the name without "_per_pair".
func (m Recorded) metricName(c *measure.Cell) string {
	if c.Pairs == 1 {
		return strings.TrimSuffix(m.Metric, "_per_pair")
	}
	return m.Metric
}

// cell returns the cell of a run at a point; nil if it has none. If several fit, such as two families in a suite with
// one, it is the first. For a metric of labs, it is one cell of the lab.
func (s *Suite) cell(run *measure.Run, p Point) *measure.Cell {
	m := s.metric(p[metricOf])
	i := slices.IndexFunc(s.Stacks, func(x Stack) bool { return x.Name == p[stackOf] })
	for _, name := range s.Stacks[i].Here {
		for j := range run.Cells {
			c := &run.Cells[j]
			if !c.Twin && c.Mix == nil && c.Alone == "" && c.Stack == name && (m.Here.Lab || c.Workload == m.Here.Workload) &&
				s.at(c, p.with(m.Here.Params)) && has(c, m.Here.Params) {
				return c
			}
		}
	}
	return nil
}

// at reports whether a cell lies at the coordinates of a point on all axes that a run has.
func (s *Suite) at(c *measure.Cell, p Point) bool {
	for _, k := range s.Axes {
		if property(c, k) != p[k] && !slices.Contains(s.Theirs, k) {
			return false
		}
	}
	return true
}

func has(c *measure.Cell, params Point) bool {
	for k, v := range params {
		if c.Params[k] != v {
			return false
		}
	}
	return true
}

// Unpublished returns the reason why the paper has no figure of a cell; "" if there is no reason.
func (s *Suite) Unpublished(c *measure.Cell) string {
	for _, u := range s.unpublished {
		fits := true
		for k, v := range u.Where {
			switch k {
			case stackOf:
				i := slices.IndexFunc(s.Stacks, func(x Stack) bool { return x.Name == v })
				fits = fits && i >= 0 && slices.Contains(s.Stacks[i].Here, c.Stack)
			default:
				fits = fits && property(c, k) == v
			}
		}
		if fits {
			return u.Reason
		}
	}
	return ""
}
