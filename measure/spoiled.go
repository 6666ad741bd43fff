package measure

import (
	"fmt"
	"slices"
)

// Metrics of how long threads waited for a CPU, and of work other than foreign programs that they may have waited for.
const (
	// WaitMetric is the share of a trial for which a thread was ready to run while something else used its CPU, for the
	// thread that waited longest.
	WaitMetric = "cpu_wait"

	waitSoftirqd = "cpu_softirqd" // cores: ksoftirqd carries packets
	waitPrograms = "cpu_programs" // cores: so do these
)

const (
	// mostAside is the largest share of a group's blocks that may be set aside. If it were larger, the remaining blocks
	// would be a selection.
	mostAside = 1.0 / 3
	// leastStolen is the least steal of a block that counts, in s. /proc/stat counts in ticks of 10 ms (USER_HZ), and
	// one tick may be the remainder of much older steal.
	leastStolen = 0.02
)

// Spoiled describes what happened to the blocks of a group in which other programs took the CPU.
type Spoiled struct {
	Group string
	// Blocks is the number of blocks in which the group was measured. Hit is how many of them have a spoiled trial or
	// steal, and Aside how many were set aside.
	Blocks, Hit, Aside int
	// Busy is true if too many blocks were hit, so that none was set aside.
	Busy  bool
	Cells []SpoiledCell // those of its cells that were judged
}

// Uneven reports whether a cell of the group has more spoiled trials than chance would give it. If so, no block is set
// aside.
func (s Spoiled) Uneven() bool {
	return slices.ContainsFunc(s.Cells, func(c SpoiledCell) bool { return c.Uneven })
}

// SpoiledCell holds the number of spoiled trials of a cell.
type SpoiledCell struct {
	Cell            string
	Trials, Spoiled int
	// P is the probability of at least this many spoiled trials if those of each block were drawn by lot.
	P      float64
	Uneven bool
}

// blockOf returns the block of a trial.
func blockOf(t *Trial) visit { return visit{t.Generation, t.Block} }

// oneTrial is a cell in a block.
type oneTrial struct {
	cell string
	visit
}

func oneOf(t *Trial) oneTrial { return oneTrial{t.Cell, blockOf(t)} }

// SpoiledTrial reports whether other programs took the CPU from a trial. judged is false if that is unknown or was not
// asked for. aside reports whether its block was set aside for its group.
func (a Analysis) SpoiledTrial(t *Trial) (spoiled, judged, aside bool) {
	if a.from == nil {
		return false, false, false
	}
	spoiled, judged = a.from.spoiled[oneOf(t)]
	return spoiled, judged, a.from.aside[oneOf(t)]
}

// spoil sets aside the blocks of each group in which other programs took the CPU from a trial. The only figure that it
// reads is the time that threads waited.
func (a *analyzer) spoil() {
	if a.run.Design.Spoiled <= 0 {
		return
	}
	a.spoiled, a.aside = map[oneTrial]bool{}, map[oneTrial]bool{}
	stolen := a.stolen()
	var names []string
	groups := map[string][]int{}
	for i, c := range a.run.Cells {
		if groups[c.Group] == nil {
			names = append(names, c.Group)
		}
		groups[c.Group] = append(groups[c.Group], i)
	}
	var hit []map[visit]bool // blocks, by group
	for _, name := range names {
		s, blocks := a.judge(groups[name])
		if len(s.Cells) == 0 {
			continue
		}
		s.Group = name
		for _, i := range groups[name] {
			for _, t := range a.cells[i].trials {
				blocks[blockOf(t)] = blocks[blockOf(t)] || stolen[blockOf(t)]
			}
		}
		s.Blocks, s.Hit = len(blocks), countTrue(blocks)
		a.out.Spoiled, hit = append(a.out.Spoiled, s), append(hit, blocks)
	}
	a.uneven()
	for i := range a.out.Spoiled {
		s := &a.out.Spoiled[i]
		s.Busy = float64(s.Hit) > mostAside*float64(s.Blocks)
		if s.Hit > 0 && !s.Busy && !s.Uneven() {
			s.Aside = a.setAside(groups[s.Group], hit[i])
		}
	}
	a.saySpoiled()
}

func countTrue(blocks map[visit]bool) (n int) {
	for _, hit := range blocks {
		if hit {
			n++
		}
	}
	return n
}

// stolen returns the blocks in which the steal by hypervisors exceeds its usual level by more than the share.
func (a *analyzer) stolen() map[visit]bool {
	steal := make([]float64, len(a.log.Blocks)) // cores
	for i, b := range a.log.Blocks {
		steal[i] = b.CPU["steal"]
		for _, m := range b.Machines {
			steal[i] = max(steal[i], m.CPU["steal"])
		}
	}
	usual := Median(steal)
	blocks := map[visit]bool{}
	for i, b := range a.log.Blocks {
		if more := steal[i] - usual; more > a.run.Design.Spoiled && more*b.Duration >= leastStolen {
			blocks[visit{b.Generation, b.Block}] = true
		}
	}
	return blocks
}

// wait returns the share of a trial for which a thread waited for something that does not carry packets.
func wait(t *Trial) (share float64, known bool) {
	share, known = t.Metrics[WaitMetric]
	return max(0, share-t.Metrics[waitSoftirqd]-t.Metrics[waitPrograms]), known
}

// judge finds the spoiled trials of a group: those that waited longer than usual by more than the share. The usual wait
// is the median of the cell that waits least, because threads that sleep wait a little whenever they wake up. It
// returns the blocks in which any cell of the group has a trial; the value is true if one of these trials is spoiled.
func (a *analyzer) judge(group []int) (Spoiled, map[visit]bool) {
	var s Spoiled
	blocks := map[visit]bool{}
	usual, known := 0.0, false
	for _, i := range group {
		var waits []float64
		for _, t := range a.cells[i].trials {
			if w, ok := wait(t); ok && !a.run.Cells[i].SharesCPUs {
				waits = append(waits, w)
			}
		}
		if len(waits) == 0 {
			continue
		}
		if m := Median(waits); !known || m < usual {
			usual, known = m, true
		}
		s.Cells = append(s.Cells, SpoiledCell{Cell: a.run.Cells[i].ID, P: 1})
	}
	for c := range s.Cells {
		one := &s.Cells[c]
		for _, t := range a.cells[a.byID[one.Cell]].trials {
			w, ok := wait(t)
			if !ok {
				continue
			}
			bad := w > usual+a.run.Design.Spoiled
			a.spoiled[oneOf(t)] = bad
			one.Trials++
			if bad {
				one.Spoiled++
				blocks[blockOf(t)] = true
			}
		}
	}
	return s, blocks
}

// uneven finds the cells that have more spoiled trials than chance gives them. The order of a block is drawn by lot, so
// a program that knows nothing of stacks hits each of its cells with the same probability, independently in every
// block. The sum over blocks has an exact distribution. The family for Holm's procedure is all cells of the run that
// were judged.
func (a *analyzer) uneven() {
	var cells []*SpoiledCell
	var p []float64
	for i := range a.out.Spoiled {
		group := a.out.Spoiled[i].Cells
		type lot struct{ spoiled, trials int }
		lots := map[visit]lot{}
		for _, c := range group {
			for _, t := range a.cells[a.byID[c.Cell]].trials {
				if bad, judged := a.spoiled[oneOf(t)]; judged {
					l := lots[blockOf(t)]
					if l.trials++; bad {
						l.spoiled++
					}
					lots[blockOf(t)] = l
				}
			}
		}
		for j := range group {
			c := &group[j]
			var chance []float64
			for _, t := range a.cells[a.byID[c.Cell]].trials {
				if l := lots[blockOf(t)]; l.spoiled > 0 {
					if _, judged := a.spoiled[oneOf(t)]; judged {
						chance = append(chance, float64(l.spoiled)/float64(l.trials))
					}
				}
			}
			c.P = atLeast(chance, c.Spoiled)
			cells, p = append(cells, c), append(p, c.P)
		}
	}
	for i, level := range Holm(p, Level) {
		cells[i].Uneven = p[i] <= level
	}
}

// atLeast returns the probability of at least k successes in independent trials with these chances.
func atLeast(chance []float64, k int) float64 {
	if k <= 0 {
		return 1
	}
	// exactly[j]: the probability of j successes so far; the last element is that of k or more
	exactly := make([]float64, k+1)
	exactly[0] = 1
	for _, p := range chance {
		exactly[k] += exactly[k-1] * p
		for j := k - 1; j > 0; j-- {
			exactly[j] += (exactly[j-1] - exactly[j]) * p
		}
		exactly[0] -= exactly[0] * p
	}
	return min(exactly[k], 1)
}

// setAside removes blocks from the cells of a group and returns how many. A generation that would lose more than half
// of its blocks keeps them all, because generations are the sample.
func (a *analyzer) setAside(group []int, hit map[visit]bool) int {
	more := map[int]int{} // how many more sound blocks than others, by generation
	for at, bad := range hit {
		if bad {
			more[at.generation]--
		} else {
			more[at.generation]++
		}
	}
	n := 0
	for at, bad := range hit {
		if bad && more[at.generation] >= 0 {
			n++
		}
	}
	for _, i := range group {
		c := &a.cells[i]
		c.trials = slices.DeleteFunc(slices.Clone(c.trials), func(t *Trial) bool {
			away := hit[blockOf(t)] && more[t.Generation] >= 0
			if away {
				a.aside[oneOf(t)] = true
			}
			return away
		})
	}
	return n
}

// saySpoiled adds warnings about the blocks that were set aside, and about those that were not.
func (a *analyzer) saySpoiled() {
	share := Format(a.run.Design.Spoiled, UnitShare)
	aside, blocks, busy := 0, 0, 0
	for _, s := range a.out.Spoiled {
		aside, blocks = aside+s.Aside, blocks+s.Blocks
		if s.Busy && !s.Uneven() {
			busy++
		}
		for _, c := range s.Cells {
			if c.Uneven {
				a.warn(c.Cell, "something took the CPU from its threads more often than from those of the stacks it is compared "+
					"with: the stack itself, such as its daemon or its kernel threads, or a program that runs at the same time; no "+
					"block was set aside; see in top what runs, and stop what does not belong to the stack (%d of %d trials)",
					c.Spoiled, c.Trials)
			}
		}
	}
	if aside > 0 {
		a.warn("", "%s of the blocks were set aside: other programs took the CPU from a trial, for longer than usual by "+
			"more than %s of it; stop them, or give the run more time (--time)",
			Format(float64(aside)/float64(blocks), UnitShare), share)
	}
	if busy > 0 {
		where := ""
		if busy < len(a.out.Spoiled) {
			where = fmt.Sprintf(" of %d of the %d groups of cells", busy, len(a.out.Spoiled))
		}
		a.warn("", "other programs took the CPU from trials, for longer than usual by more than %s of a trial, in more than "+
			"a third of the blocks%s: the machine was too busy to set these blocks aside; stop other programs and measure "+
			"again",
			share, where)
	}
}
