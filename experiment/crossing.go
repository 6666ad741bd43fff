package experiment

import (
	"fmt"
	"math"
	"strings"
)

// A crossing holds the number of values of each crossed factor.
type crossing []crossedFactor

type crossedFactor struct {
	name   string // "pairs"
	values int
}

// combinations returns the number of combinations; math.MaxInt stands for more than that.
func (c crossing) combinations() int {
	n := 1
	for _, f := range c {
		if f.values > 0 && n > math.MaxInt/f.values {
			return math.MaxInt
		}
		n *= f.values
	}
	return n
}

// within returns an error that names the factors if they give more combinations than the limit.
func (c crossing) within(limit int) error {
	switch n := c.combinations(); {
	case n == math.MaxInt:
		return fmt.Errorf("too many combinations: more than 10^18 (limit %d): %s; cross fewer factors", limit, c)
	case n > limit:
		return fmt.Errorf("too many combinations: %d (limit %d): %s; cross fewer factors", n, limit, c)
	}
	return nil
}

// String lists the factors that have more than one value: "12 stacks × 3 pairs".
func (c crossing) String() string {
	var list []string
	for _, f := range c {
		if f.values != 1 {
			list = append(list, fmt.Sprintf("%d %s", f.values, f.name))
		}
	}
	return strings.Join(list, " × ")
}

// bounded returns an error if the experiment has too many combinations to examine.
func (e Experiment) bounded() error {
	if err := e.Factors.stacks().within(maxCombinations); err != nil {
		return err
	}
	return e.crossed().within(maxCombinations)
}

// crossed returns the factors that are crossed into cells.
func (e Experiment) crossed() crossing {
	loads := 0
	for _, l := range e.Workloads {
		of := max(1, len(l.Mix))
		if l.Alone {
			of *= 2
		}
		loads += of
	}
	places := 0
	for _, p := range e.Factors.Placements {
		places += len(e.hosts(p))
	}
	return crossing{
		{"stacks", 1 + e.Factors.stacks().combinations() + len(e.Stacks)},
		{"workloads", loads},
		{"placements", places},
		{"pairs", len(e.Factors.Pairs)},
		{"families", len(e.Factors.Families)},
		{"affinities", len(e.Factors.Affinities)},
		{"ways to be idle", len(e.Factors.idles())},
		{"MTUs", max(1, len(e.Factors.MTUs))},
		{"congestion controls", max(1, len(e.Factors.Congestions))},
	}
}

// idles returns the ways to be idle that are crossed, or the default.
func (f Factors) idles() []string {
	if len(f.Idles) == 0 {
		return Idles()[:1]
	}
	return f.Idles
}

// stacks returns the factors that are crossed into stacks.
func (f Factors) stacks() crossing {
	if len(f.Parts) == 0 {
		return crossing{{"stacks", 0}}
	}
	var list crossing
	for _, choices := range f.Parts {
		list = append(list, crossedFactor{choices[0].Kind.Describe().Plural, len(choices)})
	}
	return list
}
