package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// fewDirect is the number of stacks of a group up to which all of them are compared with each other without a request.
const fewDirect = 4

// A Pair names two stacks to compare with each other, the first over the second.
type Pair struct{ Stack, Over string }

// ParsePair reads "STACK:STACK". The names are those of stacks of the run, as in tables or ids. The error lists them.
func (d *Data) ParsePair(text string) (Pair, error) {
	var known []string
	for i := range d.Run.Cells {
		for _, name := range names(&d.Run.Cells[i]) {
			if name != "" && !slices.Contains(known, name) {
				known = append(known, name)
			}
		}
	}
	for i, r := range text { // names may have colons in parameters
		if r == ':' && slices.Contains(known, text[:i]) && slices.Contains(known, text[i+1:]) && text[:i] != text[i+1:] {
			return Pair{text[:i], text[i+1:]}, nil
		}
	}
	return Pair{}, fmt.Errorf("%q does not name two stacks of the run (valid: STACK:STACK; stacks: %s)", text,
		Printable(strings.Join(known, ", ")))
}

// names returns the names of a cell's stack.
func names(c *measure.Cell) []string { return []string{c.Label, c.Stack} }

// directly compares stacks with each other: the given pairs, or if pairs is nil all pairs of each group with few
// stacks.
func directly(groups []*Group, a measure.Analysis, pairs []Pair) map[*Group][]measure.Direct {
	small := map[string]bool{}
	byName := map[string]*Group{}
	for _, g := range groups {
		byName[g.one().Group] = g
		small[g.one().Group] = len(g.Compared()) <= fewDirect
	}
	all := a.Direct(func(cell, over *measure.Cell) bool {
		if pairs == nil {
			return cell.Baseline != "" && over.Baseline != "" && small[cell.Group]
		}
		return slices.ContainsFunc(pairs, func(p Pair) bool {
			is := func(c *measure.Cell, name string) bool { return slices.Contains(names(c), name) }
			return is(cell, p.Stack) && is(over, p.Over) || is(over, p.Stack) && is(cell, p.Over)
		})
	})
	list := map[*Group][]measure.Direct{}
	for _, d := range all {
		if g := byName[d.Cell.Group]; g != nil && (d.HasRatio || d.HasDifference) {
			list[g] = append(list[g], turned(d, pairs))
		}
	}
	return list
}

// turned returns the comparison the other way round, if the pairs ask for that order.
func turned(d measure.Direct, pairs []Pair) measure.Direct {
	if slices.ContainsFunc(pairs, func(p Pair) bool {
		return slices.Contains(names(d.Over), p.Stack) && slices.Contains(names(d.Cell), p.Over)
	}) {
		return d.Turned()
	}
	return d
}

// directTable returns the comparisons of a group's stacks with each other; nil if there are none.
func (g *Group) directTable(short bool) *Table {
	if len(g.Direct) == 0 {
		return nil
	}
	t := &Table{
		Caption: "Directly against each other: " + Label(g.Primary),
		Columns: heads("", "change", "95 % interval", "verdict"),
	}
	for i := range g.Direct {
		d := &g.Direct[i]
		point, interval := Change(&d.Row)
		t.Rows = append(t.Rows, []Field{
			{Text: StackName(d.Cell) + " : " + StackName(d.Over)},
			{Text: point},
			{Text: interval},
			Judged(&d.Row, g.Primary, short),
		})
	}
	return t
}
