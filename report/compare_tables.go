package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// Comparison holds the words and tables of views for people about two or more runs.
type Comparison struct {
	Standing []string // the first sentences of every view: see [standing]
	Answer   []string // the changes; the first sentence sums them up
	Subject  []string // if values are compared: the differences between the runs, and their meaning
	Groups   []ComparedGroup
	Origins  []string // the origin of each run
	Doubts   []string
}

// ComparedGroup holds the tables of a group.
type ComparedGroup struct {
	Title, Heading string // as a heading, and as part of a sentence
	Slug           string // the name of its figures
	Over           string // "over loopback"; "" if values are compared
	Primary        measure.Metric
	Grids          []Grid
	Rows           []ComparedRow // its stacks in the primary metric

	id string
}

// ComparedRow is a stack in a comparison, with its changes from the old run to each of the new ones.
type ComparedRow struct {
	Stack   string
	Base    bool // the baseline
	Changes []*measure.Change
	Words   []string // the names of the new runs
}

// Comparison returns the words and tables: the primary metric of each cell, or all of its metrics.
func (c *Compared) Comparison(all bool) Comparison { return Comparisons{c}.Comparison(all) }

// Comparison returns the words and tables about the changes from the old run to each of the new ones.
func (l Comparisons) Comparison(all bool) Comparison {
	var said Comparison
	once := func(list *[]string, texts []string) {
		for _, s := range texts {
			if !slices.Contains(*list, s) {
				*list = append(*list, s)
			}
		}
	}
	views := make([]*comparison, len(l))
	for i, c := range l {
		v := c.sorted()
		views[i] = v
		once(&said.Standing, c.Standing())
		said.Answer = append(said.Answer, v.sentences()...)
		once(&said.Subject, c.subject())
		once(&said.Origins, v.origins())
		once(&said.Doubts, c.Doubts())
		for _, g := range v.Groups {
			id := g.one().Group
			at := slices.IndexFunc(said.Groups, func(o ComparedGroup) bool { return o.id == id })
			if at < 0 {
				at = len(said.Groups)
				said.Groups = append(said.Groups, ComparedGroup{
					Title: g.Title(), Heading: g.Heading(), Slug: g.Slug, Primary: g.Primary, id: id,
				})
				if !c.Absolute {
					said.Groups[at].Over = g.Over()
				}
			}
			to := &said.Groups[at]
			grids := v.grids(g, all)
			if len(l) > 1 {
				for _, grid := range grids {
					for _, t := range []*Table{grid.Table, grid.Middle, grid.Short} {
						if lead := c.word + " against OLD"; t != nil && !strings.HasPrefix(t.Caption, lead) {
							t.Caption = strings.TrimSuffix(lead+": "+t.Caption, ": ")
						}
					}
				}
			}
			to.Grids = append(to.Grids, grids...)
			to.rows(v, g, i, len(l))
		}
	}
	if c := l[0]; c.Absolute {
		said.Subject = append(said.Subject, caveat)
	}
	if len(l) > 1 {
		for i := range said.Groups {
			g := &said.Groups[i]
			t := g.trend(l)
			g.Grids = append(g.Grids, Grid{Table: t, Short: t})
		}
	}
	return said
}

// rows adds the changes of the stacks of a group in the primary metric.
func (to *ComparedGroup) rows(v *comparison, g *Group, run, runs int) {
	for _, cell := range g.Cells {
		at := slices.IndexFunc(to.Rows, func(r ComparedRow) bool { return r.Stack == StackName(cell) })
		if at < 0 {
			at = len(to.Rows)
			to.Rows = append(to.Rows, ComparedRow{
				Stack: StackName(cell), Base: cell == g.Base, Changes: make([]*measure.Change, runs),
				Words: make([]string, runs),
			})
		}
		r := &to.Rows[at]
		r.Changes[run], r.Words[run] = v.changes[cell.ID][g.Primary.Name], v.c.word
	}
}

// trend returns a table with the values of the primary metric in every run.
func (to *ComparedGroup) trend(l Comparisons) *Table {
	titles := []string{"OLD"}
	for _, c := range l {
		titles = append(titles, c.word)
	}
	t := &Table{Caption: Capital(Label(to.Primary)) + " in each run", Columns: heads("", titles...)}
	for _, r := range to.Rows {
		row := []Field{{Text: r.Stack}, {Text: "–"}}
		for _, c := range r.Changes {
			now := "–"
			if c != nil {
				now = valueOf(c.New)
				if c.Old != nil {
					row[1].Text = valueOf(c.Old)
				}
			}
			row = append(row, Field{Text: now})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// comparison is the comparison of two runs, sorted by groups.
type comparison struct {
	*Reading // for the cells of the new run that the old run has too
	c        *Compared
	changes  map[string]map[string]*measure.Change // by cell and metric
	direct   []measure.DirectChange                // between stacks, if ratios are compared
}

func (c *Compared) sorted() *comparison {
	common := c.New.Run
	common.Cells = slices.DeleteFunc(slices.Clone(common.Cells), func(x measure.Cell) bool {
		return slices.Contains(c.OnlyNew, x.ID)
	})
	v := &comparison{Reading: Read(common, c.New.Analysis, nil), c: c, changes: map[string]map[string]*measure.Change{}}
	for i := range c.Changes {
		x := &c.Changes[i]
		if v.changes[x.Cell.ID] == nil {
			v.changes[x.Cell.ID] = map[string]*measure.Change{}
		}
		v.changes[x.Cell.ID][x.Metric] = x
	}
	if !c.Absolute {
		v.direct = c.Direct()
	}
	return v
}

// Direct returns the changes between two stacks that views of both runs compare directly; nil if values are compared.
func (c *Compared) Direct() []measure.DirectChange {
	if c.Absolute {
		return nil
	}
	return measure.CompareDirect(c.Old.Direct(), c.New.Direct(), c.margin())
}

// directTable returns the table of direct comparisons within a group; nil if there are none.
func (v *comparison) directTable(g *Group, short bool) *Table {
	t := &Table{
		Caption: "Directly against each other: " + Label(g.Primary),
		Columns: heads("", "OLD", v.c.word, "change", "95 % interval", "n", "verdict"),
	}
	for i := range v.direct {
		d := &v.direct[i]
		point, interval := Change(&d.Row)
		if d.Cell.Group != g.one().Group || point == "" {
			continue
		}
		before, _ := Change(&d.Old.Row)
		after, _ := Change(&d.New.Row)
		said := Verdict(d.Verdict, g.Primary, short)
		if d.Verdict == measure.TooFew {
			said.Text = TooFew(min(d.Old.Generations, d.New.Generations))
		}
		t.Rows = append(t.Rows, []Field{
			{Text: StackName(d.Cell) + " : " + StackName(d.Over)},
			{Text: before},
			{Text: after},
			{Text: point},
			{Text: interval},
			{fmt.Sprintf("%d, %d", d.Old.Generations, d.New.Generations), Quiet},
			said,
		})
	}
	if t.Rows == nil {
		return nil
	}
	return t
}

// compared returns the cells of a group that are compared. If values are compared, the baseline is among them.
func (v *comparison) compared(g *Group) []*measure.Cell {
	if v.c.Absolute {
		return g.Cells
	}
	return g.Compared()
}

// grids returns the tables of a group.
func (v *comparison) grids(g *Group, all bool) []Grid {
	if !all {
		one := Grid{Table: v.primary(g, false), Short: v.primary(g, true)}
		if !v.c.Absolute {
			one.Middle, one.Short = one.Short, v.primary(g, true).withoutTolls()
		}
		if s := v.drift(g); s != "" && !v.c.Absolute {
			one.Notes = append(one.Notes, s)
		}
		one.Notes = append(one.Notes, v.floorNote(g), "n: generations in OLD and "+v.c.word)
		list := []Grid{one}
		if t := v.directTable(g, false); t != nil {
			list = append(list, Grid{Table: t, Short: v.directTable(g, true)})
		}
		return list
	}
	var list []Grid
	for _, cell := range v.compared(g) {
		caption := StackName(cell)
		if !v.c.Absolute {
			caption += " " + g.Over()
		}
		one := Grid{Table: v.metrics(caption, cell, false), Short: v.metrics(caption, cell, true)}
		if !v.c.Absolute {
			one.Middle = v.metrics(caption, cell, false).withoutTolls()
			one.Short = one.Short.withoutTolls()
		}
		list = append(list, one)
	}
	if g.Base != nil && !v.c.Absolute {
		t := v.baseline(g)
		list = append(list, Grid{Table: t, Short: t})
	}
	return list
}

// withoutTolls removes the columns with the tolls of each run, if ratios are compared. The title of the change then
// says that it is a change of ratios.
func (t *Table) withoutTolls() *Table {
	const tolls = 2
	t = t.without(tolls + 1).without(tolls)
	t.Columns[tolls].Title = "change of toll"
	return t
}

// titles returns the titles of the columns of changes, between the name and the verdict.
func (v *comparison) titles(more ...string) []string {
	list := []string{"OLD", v.c.word, "change", "95 % interval"}
	if !v.c.Absolute {
		list = append([]string{"value"}, list...)
	}
	return append(append(list, more...), "n", "verdict")
}

// cells returns the fields of a row of changes, in the columns of titles.
func (v *comparison) cells(c *measure.Change) []Field {
	point, interval := Change(&c.Row)
	if v.c.Absolute {
		return []Field{{Text: valueOf(c.Old)}, {Text: valueOf(c.New)}, {Text: point}, {Text: interval}}
	}
	return []Field{{Text: values(c)}, {Text: toll(c.Old)}, {Text: toll(c.New)}, {Text: point}, {Text: interval}}
}

// primary returns the table of the primary metric.
func (v *comparison) primary(g *Group, short bool) *Table {
	first := Label(g.Primary)
	if !v.c.Absolute {
		first += " " + g.Over()
	}
	if short {
		first = ""
	}
	t := &Table{Columns: heads(first, v.titles()...)}
	for _, cell := range v.compared(g) {
		row := []Field{{Text: StackName(cell)}}
		if c := v.changes[cell.ID][g.Primary.Name]; c != nil {
			row = append(append(row, v.cells(c)...), Field{generations(c), Quiet}, judgedChange(c, g.Primary, short))
		} else {
			for len(row) < len(t.Columns)-1 {
				row = append(row, Field{})
			}
			row[1].Text, row[2].Text = "–", "–"
			row = append(row, Verdict(measure.NotPrecise, g.Primary, short))
		}
		t.Rows = append(t.Rows, row)
	}
	if t.Rows == nil {
		t.Rows = [][]Field{{{"only the baseline is in both runs", Quiet}}}
	}
	return t
}

// metrics returns the table of every metric of a cell.
func (v *comparison) metrics(caption string, cell *measure.Cell, short bool) *Table {
	t := &Table{Caption: caption, Columns: heads("", v.titles("floor")...)}
	for _, metric := range v.known.Sorted(maps.Keys(v.changes[cell.ID])) {
		c := v.changes[cell.ID][metric]
		m := c.About
		row := append([]Field{{Text: Label(m)}}, v.cells(c)...)
		t.Rows = append(t.Rows, append(row, Field{noise(c.Floor, m), Quiet}, Field{generations(c), Quiet},
			judgedChange(c, m, short)))
	}
	return t
}

// baseline returns the table of the baseline's own values.
func (v *comparison) baseline(g *Group) *Table {
	t := &Table{
		Caption: g.baseAs + ", the baseline: changes that all stacks share, and ratios do not show",
		Columns: heads("", "OLD", v.c.word, "change", "95 % interval", "n"),
	}
	for _, metric := range v.known.Sorted(maps.Keys(v.changes[g.Base.ID])) {
		c := v.changes[g.Base.ID][metric]
		point, interval := drift(c)
		t.Rows = append(t.Rows, []Field{
			{Text: Label(c.About)},
			{Text: valueOf(c.Old)},
			{Text: valueOf(c.New)},
			{Text: point},
			{Text: interval},
			{generations(c), Quiet},
		})
	}
	return t
}

// valueOf returns the value of a row in words; "–" if there is none.
func valueOf(r *measure.Row) string {
	if r == nil || math.IsNaN(r.Value) {
		return "–"
	}
	return Number(r.Value, r.Unit)
}

// values returns the old and the new value: "14.4 → 17.5 µs".
func values(c *measure.Change) string {
	before, after := valueOf(c.Old), valueOf(c.New)
	_, x, _ := strings.Cut(before, " ")
	if _, y, ok := strings.Cut(after, " "); ok && x == y {
		before = strings.TrimSuffix(before, " "+x)
	}
	return before + " → " + after
}

// generations returns the numbers of generations of both runs: "5, 8".
func generations(c *measure.Change) string {
	n := func(r *measure.Row) string {
		if r == nil {
			return "0"
		}
		return strconv.Itoa(r.Generations)
	}
	return n(c.Old) + ", " + n(c.New)
}

// Own returns the change of the value itself, and its interval; both are "" if unknown.
func Own(c *measure.Change) (point, interval string) {
	return Change(&measure.Row{Effect: c.Own, Unit: c.Unit, About: c.About})
}

// drift returns the change of a value from one run to the other. The interval is "" if there is none.
func drift(c *measure.Change) (point, interval string) {
	if point, interval = Own(c); point != "" {
		return point, interval
	}
	x := c.Drift()
	if math.IsNaN(x) || math.IsInf(x, 0) || x == 0 {
		return "", ""
	}
	const known = 0.02 // one decimal
	point, _ = ratio(x, x-known/2, x+known/2)
	return point, ""
}

// shifted returns the baselines whose own primary metric has a verdict, and the number of all.
func (v *comparison) shifted(verdict func(*measure.Change) measure.Verdict) (list []*measure.Change, of int) {
	for _, g := range v.Groups {
		if g.Base == nil {
			continue
		}
		of++
		if c := v.changes[g.Base.ID][g.Primary.Name]; c != nil && verdict(c) != "" {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(x, y *measure.Change) int { // worse ones first
		b := func(c *measure.Change) int { return map[bool]int{true: 0, false: 1}[c.Worse()] }
		return cmp.Compare(b(x), b(y))
	})
	return list, of
}
