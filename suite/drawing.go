package suite

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// Drawing is a figure or a table of the paper in its own layout: panels with an axis each, groups of bars along it, and
// the bars of a group.
type Drawing struct {
	Figure string  `yaml:"figure"` // its number in the paper; "" if it is a table
	Table  string  `yaml:"table"`  // its number or name; "" if it is a figure
	Title  string  `yaml:"title"`
	At     Point   `yaml:"at"`     // coordinates that all bars share
	Panels []Point `yaml:"panels"` // coordinates of each panel; none: a single panel
	Along  Space   `yaml:"along"`  // one coordinate at most
	Bars   Space   `yaml:"bars"`   // one coordinate at most
	Note   string  `yaml:"note"`
}

// Name returns the name of the drawing: "figure 4" or "table store".
func (d Drawing) Name() string {
	if d.Figure != "" {
		return "figure " + d.Figure
	}
	return "table " + d.Table
}

// checkDrawings returns an error if the drawings of a suite are not valid.
func (s *Suite) checkDrawings(known measure.Vocabulary) error {
	var names []string
	for _, d := range s.Drawings {
		if (d.Figure == "") == (d.Table == "") || d.Title == "" {
			return fmt.Errorf("drawing %q: give a title and either figure or table", d.Title)
		}
		if slices.Contains(names, d.Name()) {
			return fmt.Errorf("%s is listed twice", d.Name())
		}
		names = append(names, d.Name())
		if err := s.checkDrawing(d, known); err != nil {
			return fmt.Errorf("%s: %w", d.Name(), err)
		}
	}
	return nil
}

func (s *Suite) checkDrawing(d Drawing, known measure.Vocabulary) error {
	if len(d.Along) > 1 || len(d.Bars) > 1 {
		return errors.New("along and bars take one coordinate each")
	}
	for _, panel := range d.panels() {
		unit := ""
		for _, group := range d.Along.cross(s.coordinates()) {
			for _, bar := range d.Bars.cross(s.coordinates()) {
				p := d.At.with(panel).with(group).with(bar)
				for _, k := range s.coordinates() {
					if p[k] == "" {
						return fmt.Errorf("a bar lacks %s", k)
					}
				}
				for k, v := range p {
					if err := s.checkCoordinate(k, v); err != nil {
						return err
					}
				}
				m := s.metric(p[metricOf])
				about, _ := known.Lookup(m.Here.Metric)
				of := cmp.Or(m.In, about.Unit) + " of " + m.Of
				if unit != "" && unit != of {
					return fmt.Errorf("bars of a panel are in %q and %q (hint: a panel each)", unit, of)
				}
				unit = of
			}
		}
	}
	return nil
}

func (d Drawing) panels() []Point {
	if len(d.Panels) == 0 {
		return []Point{{}}
	}
	return d.Panels
}

// points returns the places of all bars.
func (d Drawing) points(s *Suite) []Point {
	var list []Point
	for _, panel := range d.panels() {
		for _, group := range d.Along.cross(s.coordinates()) {
			for _, bar := range d.Bars.cross(s.coordinates()) {
				list = append(list, d.At.with(panel).with(group).with(bar))
			}
		}
	}
	return list
}

// drawings returns the redrawn figures of the paper, as far as anything of them was measured.
func (r *Result) drawings() []report.Section {
	var list []report.Section
	for _, d := range r.Suite.Drawings {
		if plot, ok := r.plot(d); ok {
			list = append(list, report.Section{
				Title:  strings.ToUpper(d.Name()[:1]) + d.Name()[1:] + " of the paper: " + d.Title,
				Detail: !r.narrowed,
				Blocks: append([]report.Block{{Plot: plot}}, plot.Blocks()...),
			})
		}
	}
	return list
}

// plot redraws a figure; false if nothing of it was measured.
func (r *Result) plot(d Drawing) (*report.Plot, bool) {
	s := r.Suite
	p := &report.Plot{Name: s.Name + " " + d.Name(), Title: d.Name(), Subtitle: d.Title, Note: d.Note}
	p.Title = strings.ToUpper(p.Title[:1]) + p.Title[1:]
	measured := false
	for _, at := range d.panels() {
		at = d.At.with(at)
		panel := report.PlotPanel{}
		for _, bar := range d.Bars.cross(s.coordinates()) {
			panel.Series = append(panel.Series, named(d.Bars, bar))
		}
		for i, group := range d.Along.cross(s.coordinates()) {
			name := named(d.Along, group)
			if m := group[metricOf]; m != "" {
				name = s.metric(m).Title
			}
			panel.Groups = append(panel.Groups, name)
			panel.Published, panel.Here = append(panel.Published, nil), append(panel.Here, nil)
			for _, bar := range d.Bars.cross(s.coordinates()) {
				point := at.with(group).with(bar)
				m := s.metric(point[metricOf])
				there, here := report.NoBar(), r.bar(point)
				about, _ := r.run.Vocabulary().Lookup(m.Here.Metric)
				if f, ok := s.published(point); ok {
					there.Value = f.Value
					if m.Of == "" { // the panel names the metric
						there.As = s.text(f, about.Unit)
					}
				}
				panel.Published[i], panel.Here[i] = append(panel.Published[i], there), append(panel.Here[i], here)
				measured = measured || !math.IsNaN(here.Value)
				panel.Title, panel.In, panel.Per = m.Title, m.In, m.Unit
				if panel.Unit, panel.Better = about.Unit, about.Better; m.Of != "" {
					panel.Unit, panel.Of = "", m.Of
				}
			}
		}
		if len(d.Along[metricOf]) > 1 {
			panel.Title = d.Title
		}
		if len(d.Panels) > 1 {
			var more []string
			for _, k := range s.Axes {
				if v := at[k]; v != "" && d.At[k] == "" {
					more = append(more, coordinate(k, v))
				}
			}
			panel.Title = strings.Join(append([]string{panel.Title}, more...), ", ")
		}
		p.Panels = append(p.Panels, panel)
	}
	return p, measured
}

// named returns the name of a bar or a group.
func named(of Space, at Point) string {
	for k := range of {
		return coordinate(k, at[k])
	}
	return ""
}

// bar returns the measured value at a place, with its interval.
func (r *Result) bar(at Point) report.Bar {
	b := report.NoBar()
	m, c := r.Suite.metric(at[metricOf]), r.Suite.cell(r.run, at)
	switch {
	case c == nil:
	case m.Of != "":
		of := r.Suite.cell(r.run, at.with(Point{stackOf: m.Of}))
		if of == nil {
			return b
		}
		if of.ID == c.ID {
			b.Value = 1
			return b
		}
		got, err := r.combine.Combine([]measure.Term{m.Here.term(c, 1), m.Here.term(of, -1)})
		if err == nil {
			b = report.Bar{Value: got.Ratio, Lo: got.Lo, Hi: got.Hi}
		}
	case m.Here.Lab:
		for _, f := range r.analysis.Labs {
			if f.Lab == c.Lab && f.Metric == m.Here.Metric {
				b = report.Bar{Value: f.Value * m.Here.Scale, Lo: f.Least * m.Here.Scale, Hi: f.Most * m.Here.Scale}
			}
		}
	default:
		for i := range r.analysis.Rows {
			if row := &r.analysis.Rows[i]; row.Cell.ID == c.ID && row.Metric == m.Here.metricName(c) {
				x := m.Here.Scale
				b = report.Bar{Value: row.Value * x, Lo: row.ValueLo * x, Hi: row.ValueHi * x}
			}
		}
	}
	return b
}
