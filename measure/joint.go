package measure

import (
	"math"
	"slices"
)

// join makes one cell of a baseline and its twins, which are equal: in each block the mean of those that have a usable
// trial. The mean is one of logarithms if the metric is compared by ratio. Other cells are then compared with all of
// them at once: a ratio to the mean of two has three quarters of the variance of a ratio to one, if each has the same
// noise of its own.
func (a *analyzer) join(copies []*cellData) *cellData {
	joint := &cellData{columns: map[string]*column{}, tallies: map[string][]tally{}}
	blocks := meetings(copies)
	for _, b := range blocks {
		joint.trials = append(joint.trials, copies[b[0].cell].trials[b[0].trial])
	}
	for _, c := range copies {
		for name := range c.columns {
			if joint.columns[name] == nil {
				joint.columns[name] = a.mean(name, copies, blocks)
			}
		}
		for prefix, list := range c.tallies {
			joint.tallies[prefix] = union(joint.tallies[prefix], list)
		}
	}
	return joint
}

// place has the index of a cell, and that of a trial in it.
type place struct{ cell, trial int }

// meetings returns the trials of each block that any of the cells has, in the order of blocks and cells.
func meetings(cells []*cellData) [][]place {
	var all []place
	for i, c := range cells {
		for j := range c.trials {
			all = append(all, place{i, j})
		}
	}
	order := func(x, y place) int { return byBlock(cells[x.cell].trials[x.trial], cells[y.cell].trials[y.trial]) }
	slices.SortStableFunc(all, order)
	var list [][]place
	for first, i := 0, 1; i <= len(all); i++ {
		if i == len(all) || order(all[first], all[i]) != 0 {
			list, first = append(list, all[first:i]), i
		}
	}
	return list
}

// mean returns the mean of a metric in each block, over the trials that have it.
func (a *analyzer) mean(metric string, cells []*cellData, blocks [][]place) *column {
	m, _ := a.known.Lookup(metric)
	from := make([]*column, len(cells))
	for i, c := range cells {
		from[i] = c.columns[metric]
	}
	mean := newColumn(len(blocks))
	for i, b := range blocks {
		var sum, n, one float64
		for _, p := range b {
			if c := from[p.cell]; c != nil && c.has[p.trial] {
				x := c.values[p.trial]
				if n, one = n+1, x; !m.Differs() {
					x = math.Log(x)
				}
				sum += x
			}
		}
		switch {
		case n == 0:
		case n == 1:
			mean.set(i, one)
		case m.Differs():
			mean.set(i, sum/n)
		default:
			mean.set(i, math.Exp(sum/n))
		}
	}
	return mean
}

// union merges histograms over the same blocks, and keeps those that only one of both has.
func union(x, y []tally) []tally {
	all := slices.Concat(x, y)
	slices.SortStableFunc(all, byRange)
	var list []tally
	for _, t := range all {
		if n := len(list); n > 0 && byRange(list[n-1], t) == 0 && list[n-1].last == t.last {
			list[n-1] = list[n-1].add(t)
			continue
		}
		list = append(list, t)
	}
	return list
}
