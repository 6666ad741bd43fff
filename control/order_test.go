package control

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nettoll/nettoll/measure"
)

// In a block the cells of a group follow each other, groups and cells come in every order, and none is lost.
func TestNeighbours(t *testing.T) {
	var cells []measure.Cell
	for _, g := range []struct {
		name   string
		stacks int
	}{{"short", 1}, {"long", 9}, {"third", 2}} {
		cells = append(cells, measure.Cell{ID: g.name, Group: g.name},
			measure.Cell{ID: g.name + "#2", Group: g.name, Baseline: g.name, Twin: true})
		for i := range g.stacks {
			cells = append(cells, measure.Cell{ID: fmt.Sprint(g.name, i), Group: g.name, Baseline: g.name})
		}
	}
	s := schedulerOf(cells...)
	all := make([]int, len(cells))
	for i := range all {
		all[i] = i
	}
	firstGroups, first, places := map[string]int{}, map[string]int{}, map[string]map[int]int{}
	const times = 3000
	for range times {
		order := s.neighbours(slices.Clone(all))
		if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, all) {
			t.Fatalf("visits %v", sorted)
		}
		var groups []string
		at := map[string]int{}
		for i, visit := range order {
			c := cells[visit]
			if i == 0 || cells[order[i-1]].Group != c.Group {
				groups = append(groups, c.Group)
				first[c.ID]++
				at[c.Group] = i
			}
			if places[c.ID] == nil {
				places[c.ID] = map[int]int{}
			}
			places[c.ID][i-at[c.Group]]++
		}
		if len(groups) != 3 {
			t.Fatalf("groups are not together: %v", groups)
		}
		firstGroups[groups[0]]++
	}
	for group, n := range firstGroups {
		if n < times/4 || n > times/2 {
			t.Errorf("%s comes first in %d of %d blocks", group, n, times)
		}
	}
	for _, c := range cells {
		positions := map[string]int{"short": 3, "long": 11, "third": 4}[c.Group]
		if len(places[c.ID]) != positions {
			t.Errorf("%s was at %d of %d places", c.ID, len(places[c.ID]), positions)
		}
	}
}

// No cell is farther from a baseline than noise is remembered, or than it must be; every cell is first as often as any
// other, and so is each of the twins before the other one.
func TestAround(t *testing.T) {
	for _, tt := range []struct {
		name          string
		others, bases int
		trial         time.Duration
		reach, first  int // greatest distance, and that with a baseline at the beginning
		orders        int // of baselines and others that may occur: 0 does not say
	}{
		{"all fit", 3, 2, 20 * time.Millisecond, 3, 3, 10},
		{"default", 3, 2, 40 * time.Millisecond, 2, 2, 8},
		{"none fits", 3, 2, 200 * time.Millisecond, 1, 1, 3},
		{"a quarter and three quarters", 4, 2, 100 * time.Millisecond, 1, 2, 0},
		{"9 stacks", 9, 2, 40 * time.Millisecond, 3, 3, 0},
		{"40 stacks", 40, 2, 40 * time.Millisecond, 10, 14, 0},
		{"no twin", 6, 1, 100 * time.Millisecond, 3, 6, 2},
		{"a stack", 1, 2, time.Second, 1, 1, 3},
		{"only twins", 0, 2, time.Second, 0, 0, 1},
		{"only a baseline", 0, 1, time.Second, 0, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cells := []measure.Cell{{ID: "base", Group: "g"}, {ID: "twin", Group: "g", Baseline: "base", Twin: true}}[:tt.bases]
			for i := range tt.others {
				cells = append(cells, measure.Cell{ID: fmt.Sprint(i), Group: "g", Baseline: "base"})
			}
			s := schedulerOf(cells...)
			all := make([]int, len(cells))
			for i := range all {
				all[i], s.cells[i].Trial = i, tt.trial
			}
			firsts, before, orders := make([]int, len(cells)), 0, map[string]bool{}
			times := 2000 * len(cells)
			for range times {
				order := s.around(slices.Clone(all))
				if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, all) {
					t.Fatalf("visits %v", sorted)
				}
				reach := tt.reach
				if order[0] < tt.bases {
					reach = tt.first
				}
				kinds := ""
				for i, visit := range order {
					if visit < tt.bases {
						kinds += "b"
						continue
					}
					kinds += "-"
					nearest := len(order)
					for base := range tt.bases {
						nearest = min(nearest, max(i-slices.Index(order, base), slices.Index(order, base)-i))
					}
					if nearest > reach {
						t.Fatalf("%v: a cell is %d from the nearer baseline, want %d at most", order, nearest, reach)
					}
				}
				orders[kinds] = true
				firsts[order[0]]++
				if tt.bases == 2 && slices.Index(order, 0) < slices.Index(order, 1) {
					before++
				}
			}
			if tt.orders > 0 && len(orders) != tt.orders {
				t.Errorf("%d orders, want %d: %v", len(orders), tt.orders, orders)
			}
			for i, n := range firsts { // 2000 are expected, with a standard deviation of 45 at most
				if n < 1800 || n > 2200 {
					t.Errorf("%s is first in %d of %d blocks", cells[i].ID, n, times)
				}
			}
			if tt.bases == 2 && (before < times*45/100 || before > times*55/100) {
				t.Errorf("the baseline is before its twin in %d of %d blocks", before, times)
			}
		})
	}
}
