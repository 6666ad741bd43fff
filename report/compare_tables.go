package report

import (
	"maps"
	"math"
	"slices"

	"github.com/nettoll/nettoll/measure"
)

// Comparison is what the views for people say of two runs.
type Comparison struct {
	Standing []string // what a reader has to know first
	Answer   []string // what has changed: the first sentence sums it up
	Groups   []ComparedGroup
	Origins  []string // where each run comes from
	Doubts   []string
}

// ComparedGroup is the tables of a group.
type ComparedGroup struct {
	Title, Heading string // on its own, and as part of a sentence
	Grids          []Grid
}

// Comparison says what has changed: of each cell its primary metric, or all of them.
func (c *Compared) Comparison(all bool) Comparison {
	v := c.sorted()
	said := Comparison{Standing: c.Standing(), Answer: v.sentences(), Origins: v.origins(), Doubts: c.Doubts()}
	for _, g := range v.Groups {
		said.Groups = append(said.Groups, ComparedGroup{g.Title(), g.Heading(), v.grids(g, all)})
	}
	return said
}

// comparison is two runs sorted for people.
type comparison struct {
	*Reading // of the new run's cells that the old one has too
	c        *Compared
	changes  map[string]map[string]*measure.Change // by cell and metric
}

func (c *Compared) sorted() *comparison {
	common := c.New.Run
	common.Cells = slices.DeleteFunc(slices.Clone(common.Cells), func(x measure.Cell) bool {
		return slices.Contains(c.OnlyNew, x.ID)
	})
	v := &comparison{Reading: Read(common, c.New.Analysis), c: c, changes: map[string]map[string]*measure.Change{}}
	for i := range c.Changes {
		x := &c.Changes[i]
		if v.changes[x.Cell.ID] == nil {
			v.changes[x.Cell.ID] = map[string]*measure.Change{}
		}
		v.changes[x.Cell.ID][x.Metric] = x
	}
	return v
}

// grids are the tables of a group.
func (v *comparison) grids(g *Group, all bool) []Grid {
	if !all {
		one := Grid{Table: v.primary(g, false), Short: v.primary(g, true)}
		if s := v.drift(g); s != "" {
			one.Notes = append(one.Notes, s)
		}
		one.Notes = append(one.Notes, v.floorNote(g))
		return []Grid{one}
	}
	var list []Grid
	for _, cell := range g.Compared() {
		caption := StackName(cell) + " " + g.Over()
		list = append(list, Grid{Table: v.metrics(caption, cell, false), Short: v.metrics(caption, cell, true)})
	}
	if g.Base != nil {
		t := v.baseline(g)
		list = append(list, Grid{Table: t, Short: t})
	}
	return list
}

// primary has the primary metric.
func (v *comparison) primary(g *Group, short bool) *Table {
	first := Label(g.Primary) + " " + g.Over()
	if short {
		first = ""
	}
	t := &Table{Columns: heads(first, "OLD", "NEW", "change", "95 % interval", "verdict")}
	for _, cell := range g.Compared() {
		row := []Field{
			{Text: StackName(cell)}, {Text: "–"}, {Text: "–"}, {}, {}, Verdict(measure.NotPrecise, g.Primary, short),
		}
		if c := v.changes[cell.ID][g.Primary.Name]; c != nil {
			point, interval := Change(&c.Row)
			row[1].Text, row[2].Text, row[3].Text, row[4].Text = toll(c.Old), toll(c.New), point, interval
			row[5] = judgedChange(c, g.Primary, short)
		}
		t.Rows = append(t.Rows, row)
	}
	if t.Rows == nil {
		t.Rows = [][]Field{{{"only the baseline is in both runs", Quiet}}}
	}
	return t
}

// metrics has every metric of a cell.
func (v *comparison) metrics(caption string, cell *measure.Cell, short bool) *Table {
	t := &Table{
		Caption: caption, Columns: heads("", "OLD", "NEW", "change", "95 % interval", "floor", "verdict"),
	}
	for _, metric := range v.known.Sorted(maps.Keys(v.changes[cell.ID])) {
		c := v.changes[cell.ID][metric]
		m := c.About
		point, interval := Change(&c.Row)
		t.Rows = append(t.Rows, []Field{
			{Text: Label(m)},
			{Text: toll(c.Old)},
			{Text: toll(c.New)},
			{Text: point},
			{Text: interval},
			{margin(c.Floor, m), Quiet},
			judgedChange(c, m, short),
		})
	}
	return t
}

// baseline has the baseline's own values.
func (v *comparison) baseline(g *Group) *Table {
	t := &Table{
		Caption: g.baseAs + ", the baseline: changes of the machine, which cancel out",
		Columns: heads("", "OLD", "NEW", "change"),
	}
	for _, metric := range v.known.Sorted(maps.Keys(v.changes[g.Base.ID])) {
		c := v.changes[g.Base.ID][metric]
		t.Rows = append(t.Rows, []Field{
			{Text: Label(c.About)}, {Text: valueOf(c.Old)}, {Text: valueOf(c.New)}, {Text: drift(c)},
		})
	}
	return t
}

// valueOf prints a row's value, "–" where there is none.
func valueOf(r *measure.Row) string {
	if r == nil || math.IsNaN(r.Value) {
		return "–"
	}
	return Number(r.Value, r.Unit)
}
