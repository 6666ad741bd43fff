package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// QuantileGroup is a quantile of latency over consecutive blocks of one generation, for a cell and for its baseline.
type QuantileGroup struct {
	Generation, First, Last      int     // blocks First … Last
	Cell, Baseline               float64 // s
	CellSamples, BaselineSamples int64
}

// MinSamples returns the least number of samples for a quantile q: 100/(1−q), so that 100 samples lie above it.
func MinSamples(q float64) int64 { return int64(math.Ceil(100/(1-q) - 1e-6)) }

// Decode returns the histogram of a record, with values in ns. The error names the cell and the blocks.
func (h Histograms) Decode() (*hdrhistogram.Histogram, error) {
	return decode(h, hdrhistogram.Decode)
}

func decode[T any](h Histograms, decoder func([]byte) (T, error)) (hist T, err error) {
	defer func() { // a damaged file must not crash the program
		if r := recover(); r != nil {
			err = fmt.Errorf("decode histogram of cell %q, blocks %d to %d: %v", h.Cell, h.First, h.Last, r)
		}
	}()
	if hist, err = decoder([]byte(h.Data)); err != nil {
		return hist, fmt.Errorf("decode histogram of cell %q, blocks %d to %d: %w", h.Cell, h.First, h.Last, err)
	}
	return hist, nil
}

// EncodeHistogram returns a histogram, with values in ns, in the HdrHistogram V2 compressed encoding, as base64. This
// is the Data of a Histograms record.
func EncodeHistogram(h *hdrhistogram.Histogram) (string, error) {
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encode histogram: %w", err)
	}
	return string(b), nil
}

// LatencyGroups returns the quantile q (0.99) of a cell and of its baseline, over the smallest groups of consecutive
// blocks of a generation with at least MinSamples(q) samples in both. Both are taken from the same blocks: records are
// merged until their block ranges end together. The blocks at the end of a generation that do not fill a group join its
// last group. A generation without enough samples has no group. The error names the first record that cannot be
// decoded.
func LatencyGroups(cell, baseline []Histograms, q float64) ([]QuantileGroup, error) {
	c, err := decodeAll(cell)
	if err != nil {
		return nil, err
	}
	b, err := decodeAll(baseline)
	if err != nil {
		return nil, err
	}
	return latencyGroups(c, b, MinSamples(q), func(t tally) float64 { return t.quantile(q) }), nil
}

// tally holds the non-empty bins of a histogram, in ascending order.
type tally struct {
	generation, first, last int
	bins                    []bin
	samples                 int64
}

type bin struct {
	ns    int64 // the lowest value of the bin
	count int64
}

// decodeAll returns the records sorted by generation and block. If a range was recorded twice (a resumed run), the
// later record counts.
func decodeAll(records []Histograms) ([]tally, error) {
	list := make([]tally, 0, len(records))
	for _, r := range records {
		h, err := decode(r, hdrhistogram.DecodePacked) // sparse: dense ones would cost a pass over all their bins
		if err != nil {
			return nil, err
		}
		t := tally{generation: r.Generation, first: r.First, last: r.Last, bins: make([]bin, 0, h.Populated())}
		h.ForEachBucket(func(value, count int64) bool {
			t.bins = append(t.bins, bin{value, count})
			t.samples += count
			return true
		})
		list = append(list, t)
	}
	slices.SortStableFunc(list, byRange)
	kept := list[:0]
	for _, t := range list {
		if n := len(kept); n > 0 && kept[n-1].generation == t.generation && kept[n-1].first == t.first {
			kept[n-1] = t
			continue
		}
		kept = append(kept, t)
	}
	return kept, nil
}

// byRange orders tallies by generation and first block.
func byRange(x, y tally) int {
	return cmp.Or(cmp.Compare(x.generation, y.generation), cmp.Compare(x.first, y.first))
}

// add returns the union of two tallies; neither is changed.
func (t tally) add(o tally) tally {
	if t.samples == 0 {
		first := t.first
		t = o
		t.first = min(first, o.first)
		return t
	}
	bins := make([]bin, 0, len(t.bins)+len(o.bins))
	a, b := t.bins, o.bins
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].ns < b[0].ns:
			bins, a = append(bins, a[0]), a[1:]
		case a[0].ns > b[0].ns:
			bins, b = append(bins, b[0]), b[1:]
		default:
			bins, a, b = append(bins, bin{a[0].ns, a[0].count + b[0].count}), a[1:], b[1:]
		}
	}
	bins = append(append(bins, a...), b...)
	return tally{t.generation, t.first, max(t.last, o.last), bins, t.samples + o.samples}
}

// quantile returns the smallest recorded value at or below which a share q of the samples lies, in s; NaN if there are
// none.
func (t tally) quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(t.samples)))
	for _, b := range t.bins {
		if rank -= b.count; rank <= 0 {
			return float64(b.ns) * 1e-9
		}
	}
	return math.NaN()
}

// latencyGroups returns the results of a function for the smallest groups with at least need samples, formed as
// [LatencyGroups] describes.
func latencyGroups(cell, baseline []tally, need int64, of func(tally) float64) []QuantileGroup {
	var groups []QuantileGroup
	var lastC, lastB tally // the last group; the rest of its generation is added to it
	open := false
	closeGroup := func(c, b tally) {
		groups = append(groups, QuantileGroup{c.generation, c.first, c.last, of(c), of(b), c.samples, b.samples})
	}
	generation := 0
	for len(cell) > 0 && len(baseline) > 0 {
		c, b := cell[0], baseline[0]
		if open && (c.generation != generation || b.generation != generation) {
			open = false
		}
		if o := cmp.Or(cmp.Compare(c.generation, b.generation), cmp.Compare(c.first, b.first)); o < 0 {
			cell = cell[1:]
			continue
		} else if o > 0 {
			baseline = baseline[1:]
			continue
		}
		cell, baseline = cell[1:], baseline[1:]
		generation = c.generation
		whole := true
		for c.last != b.last || c.samples < need || b.samples < need {
			switch {
			case c.last <= b.last && len(cell) > 0 && cell[0].generation == generation:
				equal := c.last == b.last
				c, cell = c.add(cell[0]), cell[1:]
				if equal && len(baseline) > 0 && baseline[0].generation == generation {
					b, baseline = b.add(baseline[0]), baseline[1:]
				}
				continue
			case c.last > b.last && len(baseline) > 0 && baseline[0].generation == generation:
				b, baseline = b.add(baseline[0]), baseline[1:]
				continue
			}
			whole = false
			break
		}
		switch {
		case whole:
			closeGroup(c, b)
			lastC, lastB, open = c, b, true
		case open && c.last == b.last:
			groups = groups[:len(groups)-1]
			lastC, lastB = lastC.add(c), lastB.add(b)
			closeGroup(lastC, lastB)
		}
	}
	return groups
}

// mean returns the mean in s. The lowest value of a bin stands for all of it, so the mean is at most 0.1 % too small.
// It is NaN if there are no samples.
func (t tally) mean() float64 {
	sum := 0.0
	for _, b := range t.bins {
		sum += float64(b.ns) * float64(b.count)
	}
	return sum / float64(t.samples) * 1e-9
}

// Distribution holds the merged histograms of a cell.
type Distribution struct {
	Samples int64
	merged  tally
}

// Distribute merges histograms of one cell. If a range of blocks was recorded twice (a resumed run), the later record
// counts. The error names the first record that cannot be decoded.
func Distribute(records []Histograms) (Distribution, error) {
	list, err := decodeAll(records)
	if err != nil {
		return Distribution{}, err
	}
	return merge(list), nil
}

func merge(list []tally) Distribution {
	counts := map[int64]int64{}
	var d Distribution
	for _, t := range list {
		d.Samples += t.samples
		for _, b := range t.bins {
			counts[b.ns] += b.count
		}
	}
	d.merged.samples = d.Samples
	for ns, n := range counts {
		d.merged.bins = append(d.merged.bins, bin{ns, n})
	}
	slices.SortFunc(d.merged.bins, func(a, b bin) int { return cmp.Compare(a.ns, b.ns) })
	return d
}

// Quantile returns the smallest recorded value at or below which a share q of the samples lies, in s; NaN if there are
// none.
func (d Distribution) Quantile(q float64) float64 { return d.merged.quantile(q) }
