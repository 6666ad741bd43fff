package suite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// Kinds of items of a paper.
const (
	FigureKind = "figure"
	TableKind  = "table"
	ClaimKind  = "claim"
)

// Item is a figure, a table or a claim of a paper, with the cells of a run that it needs.
type Item struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"` // its number, such as "4" or "4a", or the name of a table
	Title string `json:"title"`
	// ids of its cells, without their baselines and twins
	Cells []string `json:"cells"`
	// cells that it needs and the run lacks: "vxlan, 1 pair"
	Missing []string `json:"missing,omitempty"`
	// the paper's result is not expected here, for a reason other than the stacks
	Unlikely bool `json:"unlikely,omitempty"`
}

// Items returns the items of a paper: figures, tables, then claims, each in the paper's order. Only the cells of run
// are considered.
func (s *Suite) Items(run *measure.Run) []Item {
	var list []Item
	for _, kind := range []string{FigureKind, TableKind} {
		for _, d := range s.Drawings {
			i := Item{Kind: kind, Name: d.Figure, Title: d.Title}
			if kind == TableKind {
				i.Name = d.Table
			}
			if i.Name == "" {
				continue
			}
			i.needs(s, run, d.points(s))
			list = append(list, i)
		}
	}
	for n, c := range s.Claims {
		i := Item{Kind: ClaimKind, Name: strconv.Itoa(n + 1), Title: c.Title, Unlikely: c.Expect != ""}
		if c.Untried != "" {
			i.Missing = []string{c.Untried}
		}
		if needed := c.lacks(run); needed != "" {
			i.Missing = []string{needed}
			list = append(list, i)
			continue
		}
		for _, at := range c.Each.cross(s.coordinates()) {
			for _, ratio := range c.Ratios {
				var part Item
				for _, term := range slices.Concat(ratio.Over, ratio.Under) {
					part.needs(s, run, []Point{at.with(term)})
				}
				if i.Missing = union(i.Missing, part.Missing); part.Missing == nil { // else the ratio is not evaluated
					i.Cells = union(i.Cells, part.Cells)
				}
			}
		}
		list = append(list, i)
	}
	return list
}

// needs adds the cells at some points.
func (i *Item) needs(s *Suite, run *measure.Run, points []Point) {
	for _, p := range points {
		c := s.cell(run, p)
		if c == nil {
			if where := s.where(p); !slices.Contains(i.Missing, where) {
				i.Missing = append(i.Missing, where)
			}
			continue
		}
		if !slices.Contains(i.Cells, c.ID) {
			i.Cells = append(i.Cells, c.ID)
		}
		// A share needs the cell that it is a share of.
		if m := s.metric(p[metricOf]); m.Of != "" && p[stackOf] != m.Of {
			i.needs(s, run, []Point{p.with(Point{stackOf: m.Of})})
		}
	}
}

// Choice names the figures, tables and claims to measure, by number or name. A claim may also be named by its id.
type Choice struct{ Figures, Tables, Claims []string }

// Empty reports whether the choice is empty, which stands for everything.
func (c Choice) Empty() bool { return len(c.Figures)+len(c.Tables)+len(c.Claims) == 0 }

// Pick returns the chosen items. "4" chooses both halves of a figure that the paper calls 4a and 4b. The error is an
// [*UnknownItemError] if an item does not exist.
func (s *Suite) Pick(all []Item, c Choice) ([]Item, error) {
	var list []Item
	for _, x := range []struct {
		kind  string
		asked []string
	}{{FigureKind, c.Figures}, {TableKind, c.Tables}, {ClaimKind, c.Claims}} {
		for _, name := range x.asked {
			found := slices.DeleteFunc(slices.Clone(all), func(i Item) bool { return i.Kind != x.kind || !s.called(i, name) })
			if len(found) == 0 {
				return nil, &UnknownItemError{Suite: s.Name, Kind: x.kind, Name: name, Known: names(all, x.kind)}
			}
			list = append(list, found...)
		}
	}
	return list, nil
}

// called reports whether a name means an item.
func (s *Suite) called(i Item, name string) bool {
	half, letter := strings.CutPrefix(i.Name, name)
	switch {
	case i.Name == name:
		return true
	case i.Kind == FigureKind:
		return letter && len(half) == 1 && half[0] >= 'a' && half[0] <= 'z'
	case i.Kind == ClaimKind:
		n, err := strconv.Atoi(i.Name)
		return err == nil && s.Claims[n-1].ID == name
	}
	return false
}

func names(all []Item, kind string) []string {
	var list []string
	for _, i := range all {
		if i.Kind == kind {
			list = append(list, i.Name)
		}
	}
	return list
}

// UnknownItemError is the error about a figure, table or claim that a paper does not have.
type UnknownItemError struct {
	Suite, Kind, Name string
	Known             []string
}

func (e *UnknownItemError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("unknown %s %q: suite %s has no %ss", e.Kind, e.Name, e.Suite, e.Kind)
	}
	return fmt.Sprintf("unknown %s %q (known: %s)", e.Kind, e.Name, Numbers(e.Known))
}

// Numbers joins names, with consecutive numbers as a range: "1 to 20", "1, 3 to 5, 7".
func Numbers(list []string) string {
	var parts []string
	for i := 0; i < len(list); {
		end := i
		for ; end+1 < len(list); end++ {
			a, errA := strconv.Atoi(list[end])
			b, errB := strconv.Atoi(list[end+1])
			if errA != nil || errB != nil || b != a+1 {
				break
			}
		}
		if end > i+1 {
			parts = append(parts, list[i]+" to "+list[end])
		} else {
			parts = append(parts, list[i:end+1]...)
		}
		i = end + 1
	}
	return strings.Join(parts, ", ")
}

// Within chooses claims that fit into a time. Claims that add the least time to those already chosen come first, then
// those earlier in the paper. Unlikely claims come after all others. least returns the shortest time, in s, for a run
// of some cells. If no claim fits, Within returns the cheapest one.
func Within(claims []Item, fits func(cells []string) bool, least func(cells []string) float64) []Item {
	var chosen []Item
	var cells []string
	for _, unlikely := range []bool{false, true} {
		left := slices.DeleteFunc(slices.Clone(claims), func(i Item) bool {
			return i.Unlikely != unlikely || len(i.Cells) == 0
		})
		for len(left) > 0 {
			best, cost := 0, 0.0
			for i, item := range left {
				if x := least(union(cells, item.Cells)); i == 0 || x < cost {
					best, cost = i, x
				}
			}
			with := union(cells, left[best].Cells)
			if !fits(with) && (len(chosen) > 0 || unlikely && len(claims) > len(left)) {
				break
			}
			cells, chosen = with, append(chosen, left[best])
			if !fits(cells) {
				return chosen
			}
			left = slices.Delete(left, best, best+1)
		}
	}
	return chosen
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}
