package measure

import "math"

// firstBlocks is the number of blocks before the first look.
const firstBlocks = 20

// LeastGenerations is the least number of generations for a verdict (docs/method.md, "The verdict"). It is also the
// number before the first look, unless an experiment asks for more.
const LeastGenerations = 5

// LookPlan says how many blocks the next generation has and when looks happen. Looks are at least PerLook generations
// apart, and each look after the first sees at least twice the blocks of the look before. Generations before the first
// look have Base blocks; after a look, Choose sets the number for those that follow. If it is never called, the number
// stays: there are looks after 5, 10, 20, 40 … generations of 4 blocks.
type LookPlan struct {
	PerLook int // least number of generations between looks
	Base    int // blocks in each generation before the first look
	Blocks  int // blocks in the next generation
	Looks   int // looks so far

	generations, total          int // complete generations, and their blocks
	seenGenerations, seenBlocks int // the same at the last look
}

// NewLookPlan returns the plan for a run with at least this number of generations (0: 5) that has time for affordable
// blocks (0: any number). The plan has 20 blocks before the first look, or as many as there is time for, and at least
// one in each generation.
func NewLookPlan(generations, affordable int) LookPlan {
	if generations < 2 {
		generations = LeastGenerations
	}
	first := firstBlocks
	if affordable > 0 {
		first = min(first, affordable)
	}
	base := max(1, (first+generations/2)/generations)
	return LookPlan{PerLook: generations, Base: base, Blocks: base}
}

// Done counts a complete generation with this number of blocks, and reports whether a look follows it.
func (p *LookPlan) Done(blocks int) bool {
	p.generations++
	p.total += blocks
	if p.generations-p.seenGenerations < p.PerLook || p.total < 2*p.seenBlocks {
		return false
	}
	p.Looks++
	p.seenGenerations, p.seenBlocks = p.generations, p.total
	return true
}

// Choose sets the number of blocks of the generations that follow a look: the given number (see [BestBlocks]), rounded,
// within two limits.
//
//	most  = Base · 2^(Looks−1)     PerLook generations of it double the blocks; also if the argument is NaN
//	least = Base · 2^((Looks−1)/2) if noise is skewed, few blocks have a center that is off on one side
//
// More generations do not average such an offset away. It falls about as 1/B, so the least number grows with the root
// of all blocks, as the interval shrinks. The number never falls below half of what it was: the first generation of a
// smaller number is not taken for one that was cut short (see [Analyze]).
func (p *LookPlan) Choose(blocks float64) {
	looks := float64(min(max(p.Looks-1, 0), 30))
	most := float64(p.Base) * math.Exp2(looks)
	least := max(math.Round(float64(p.Base)*math.Exp2(looks/2)), float64((p.Blocks+1)/2))
	if !(blocks < most) {
		blocks = most
	}
	p.Blocks = int(max(math.Round(blocks), least))
}

// Precise reports whether the half-width of the row's interval is at most precision: a share or, in a metric compared
// by difference, its unit. It is false if precision is 0.
func (r Row) Precise(precision float64) bool {
	return precision > 0 && r.Effect.toPrecise(precision) == 1
}
