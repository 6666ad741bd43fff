package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/nettoll/nettoll/measure"
)

// Reading is a run sorted by groups, with the sentences about it.
type Reading struct {
	Run      measure.Run
	Analysis measure.Analysis
	Groups   []*Group
	Failed   map[string]measure.FailedCell // by cell

	known  measure.Vocabulary                 // of the run
	probed map[string]map[string]*measure.Row // by cell and metric; cells with a probe, which are in no group

	memories map[string]measure.Memory // by group; nil until one is asked for
}

// Group holds the cells that share a baseline and a floor.
type Group struct {
	Cells   []*measure.Cell // without twins, the baseline first
	Base    *measure.Cell   // nil if there is none
	Twinned []*measure.Cell // the twins
	Primary measure.Metric
	Where   string           // "on one host", and the traits that distinguish it from other groups
	Slug    string           // the name of its figures
	Direct  []measure.Direct // its stacks against each other, in the primary metric

	baseAs string                             // the name of the baseline
	rows   map[string]map[string]*measure.Row // by cell and metric, twins too
}

// Read sorts a run by groups. pairs are the stacks to compare with each other; nil: all of each group that has few.
func Read(run measure.Run, a measure.Analysis, pairs []Pair) *Reading {
	v := &Reading{
		Run: run, known: run.Vocabulary(), Analysis: a,
		Failed: map[string]measure.FailedCell{}, probed: map[string]map[string]*measure.Row{},
	}
	for _, f := range a.Failed {
		v.Failed[f.Cell] = f
	}
	byName := map[string]*Group{}
	for i := range run.Cells {
		c := &run.Cells[i]
		if c.Alone != "" {
			continue // [Reading.Beside] shows them
		}
		if c.Probe != "" {
			v.probed[c.ID] = map[string]*measure.Row{}
			continue
		}
		g := byName[c.Group]
		if g == nil {
			g = &Group{rows: map[string]map[string]*measure.Row{}}
			byName[c.Group] = g
			v.Groups = append(v.Groups, g)
			g.Primary, _ = v.known.Lookup(c.Primary)
		}
		switch {
		case c.Twin:
			g.Twinned = append(g.Twinned, c)
		case c.Baseline == "" && g.Base == nil:
			g.Base, g.baseAs = c, StackName(c)
			g.Cells = slices.Insert(g.Cells, 0, c)
		default:
			g.Cells = append(g.Cells, c)
		}
	}
	for i := range a.Rows {
		r := &a.Rows[i]
		if rows := v.probed[r.Cell.ID]; rows != nil {
			rows[r.Metric] = r
			continue
		}
		g := byName[r.Cell.Group]
		if g == nil {
			continue
		}
		if g.rows[r.Cell.ID] == nil {
			g.rows[r.Cell.ID] = map[string]*measure.Row{}
		}
		g.rows[r.Cell.ID][r.Metric] = r
	}
	v.Groups = slices.DeleteFunc(v.Groups, func(g *Group) bool { return len(g.Cells) == 0 })
	for i, g := range v.Groups {
		g.Where = v.where(g)
		g.Slug = fmt.Sprintf("%02d-%.60s", i+1, Slug(g.Title()))
	}
	for g, list := range directly(v.Groups, a, pairs) {
		g.Direct = list
	}
	return v
}

// one returns a cell that stands for the group: its cells differ in their stacks only.
func (g *Group) one() *measure.Cell { return g.Cells[0] }

// Row returns the row of a cell in a metric; nil if it has no value.
func (g *Group) Row(c *measure.Cell, metric string) *measure.Row { return g.rows[c.ID][metric] }

// Compared returns the cells that are compared with the baseline.
func (g *Group) Compared() []*measure.Cell {
	return slices.DeleteFunc(slices.Clone(g.Cells), func(c *measure.Cell) bool { return c == g.Base })
}

// Floor returns the floor of a metric; NaN if unknown. See [measure.Row].
func (g *Group) Floor(metric string) float64 {
	for _, rows := range g.rows {
		if r := rows[metric]; r != nil && !math.IsNaN(r.Floor) {
			return r.Floor
		}
	}
	return math.NaN()
}
