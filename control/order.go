package control

import (
	"slices"
	"time"

	"github.com/nettoll/nettoll/experiment"
)

// neighbours puts visits in a random order in which those of a group follow each other: the machine's noise is
// remembered for some 100 ms, and a block takes seconds, so that only neighbours share it (docs/method.md, "A block").
func (s *scheduler) neighbours(list []int) []int {
	if s.experiment.Design.Scattered {
		order := slices.Clone(list)
		s.order.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		return order
	}
	var names []string
	groups := map[string][]int{}
	for _, visit := range list {
		name := s.cells[s.workload.visits[visit].Cells[0]].Group
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], visit)
	}
	s.order.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	order := make([]int, 0, len(list))
	for _, name := range names {
		order = append(order, s.around(groups[name])...)
	}
	return order
}

// around puts the visits of a group in a random order in which none is farther from the nearer of the baseline and its
// twin than noise is remembered. In a group that is too long for that the greatest distance is as small as it can be,
// with these two near a quarter and three quarters of the order. They are first as often as any other: the trial that
// is first follows another workload, which would be in every ratio if it hit only one side of it.
func (s *scheduler) around(group []int) []int {
	s.order.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
	var bases, others []int
	var longest time.Duration
	for _, visit := range group {
		c := s.cells[s.workload.visits[visit].Cells[0]]
		longest = max(longest, c.Trial)
		if c.Base() {
			bases = append(bases, visit)
		} else {
			others = append(others, visit)
		}
	}
	if len(bases) < 1 || len(bases) > 2 {
		return group
	}
	first := s.order.IntN(len(group)) < len(bases)
	reach := experiment.NewSpan(len(group), len(bases), longest).Reach(first)
	var places [][2]int // how many of the others are before the first of the bases, and up to the last of them
	for before := range min(reach, len(others)) + 1 {
		for behind := range min(reach, len(others)-before) + 1 {
			between := len(others) - before - behind
			if (before == 0) == first && between <= 2*reach*(len(bases)-1) {
				places = append(places, [2]int{before, before + between})
			}
		}
	}
	at := places[s.order.IntN(len(places))]
	return slices.Concat(others[:at[0]], bases[:1], others[at[0]:at[1]], bases[1:], others[at[1]:])
}
