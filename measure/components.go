package measure

import (
	"math"
)

// Components are the two variances of a cell's log ratios (or differences) in its primary metric. The center of a
// generation of B blocks has the variance Generation + Block/B.
type Components struct {
	Generation float64 // between generations; the estimate may be below 0
	Block      float64 // of the blocks of a generation
}

// known reports whether the components could be estimated and are not both 0.
func (c Components) known() bool { return c.Block > 0 || c.Generation > 0 }

// estimateComponents estimates both variances by the method of moments. gens[g] holds the log ratios (or differences)
// of the blocks of generation g. The result is zero if there are fewer than 2 generations, or if none has 2 blocks.
//
//	Block      = B·(variance of a center of B blocks), from the residuals x_gb − m_g of all generations
//	Generation = s² − Block · mean of 1/B_g, s the standard deviation of the m_g
//
// For means, Block is the mean square of the residuals with N − G degrees of freedom (N blocks, G generations). For
// centers, it is the asymptotic variance of Huber's estimator, S²·Σψ²/(N − G) / (Σψ'/N)², whose scale S is 1.4826 times
// the median of all |x_gb − m_g|, times √(N/(N − G)): a stolen millisecond counts in it as much as in a center.
func estimateComponents(gens [][]float64, differs bool) Components {
	statistic := Center
	if differs {
		statistic = mean
	}
	var centers, residuals []float64
	inverse, moved := 0.0, 0
	for _, blocks := range gens {
		at, n := statistic(blocks), 0
		if !finite(at) {
			continue
		}
		for _, x := range blocks {
			if !math.IsNaN(x) {
				n++
				residuals = append(residuals, math.Abs(x-at))
			}
		}
		centers, inverse = append(centers, at), inverse+1/float64(n)
		if n > 1 {
			moved++
		}
	}
	g, n := float64(len(centers)), float64(len(residuals))
	if len(centers) < 2 || moved == 0 {
		return Components{}
	}
	var c Components
	scale := 0.0
	if !differs {
		scale = madToSD * Median(residuals) * math.Sqrt(n/(n-g))
	}
	if scale > 0 && finite(scale) {
		squares, inside := 0.0, 0.0
		for _, r := range residuals {
			u := r / scale
			if u < bend {
				inside++
			}
			u = min(u, bend)
			squares += u * u
		}
		c.Block = scale * scale * squares / (n - g) * (n / inside) * (n / inside)
	} else {
		for _, r := range residuals {
			c.Block += r * r / (n - g)
		}
	}
	at, squares := mean(centers), 0.0
	for _, m := range centers {
		squares += (m - at) * (m - at)
	}
	c.Generation = squares/(g-1) - c.Block*inverse/g
	if !finite(c.Block) || !finite(c.Generation) {
		return Components{}
	}
	return c
}

// VarianceRatio returns the median of Generation/Block over the cells that govern and for which measured returns true,
// and the number of these cells. The median is NaN if there are none, and may be below 0.
func (a Analysis) VarianceRatio(measured func(cell string) bool) (ratio float64, cells int) {
	var ratios []float64
	for _, r := range a.Rows {
		if r.Components.known() && measured(r.Cell.ID) {
			ratios = append(ratios, r.Components.Generation/r.Components.Block)
		}
	}
	return Median(ratios), len(ratios)
}

// BestBlocks returns the number of blocks in a generation for which ratios become precise soonest (W. G. Cochran,
// Sampling Techniques, 3rd ed. 1977, section 10.6: optimum sampling in two stages). cost is the time to build, prove
// and remove a generation, in blocks; ratio is the variance between generations over that of blocks.
//
//	B = √(cost / ratio)
//
// It is +Inf if generations do not differ (ratio ≤ 0), and NaN if the cost (0) or the ratio (NaN) is not known.
func BestBlocks(cost, ratio float64) float64 {
	switch {
	case !(cost > 0) || math.IsNaN(ratio):
		return math.NaN()
	case ratio <= 0:
		return math.Inf(1)
	}
	return math.Sqrt(cost / ratio)
}

// Costs returns the time that one of these generations took besides its blocks, and the time of one block, in seconds:
// medians over the generations. They are NaN if no generation has recorded both.
func Costs(gens []Generation) (generation, block float64) {
	var overheads, blocks []float64
	for _, g := range gens {
		if g.Overhead > 0 && g.Measured > 0 && g.Blocks > 0 {
			overheads = append(overheads, g.Overhead)
			blocks = append(blocks, g.Measured/float64(g.Blocks))
		}
	}
	return Median(overheads), Median(blocks)
}
