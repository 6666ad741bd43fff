package experiment

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDivide(t *testing.T) {
	for _, c := range []struct {
		pairs  int
		shares []int
		want   []int
	}{
		{2, []int{1, 1}, []int{1, 1}},
		{4, []int{3, 1}, []int{3, 1}},
		{5, []int{3, 1}, []int{4, 1}}, // 3.75 and 1.25
		{3, []int{1, 1}, []int{2, 1}}, // the first of equal shares
		{10, []int{1, 1, 1}, []int{4, 3, 3}},
		{2, []int{100, 1}, []int{1, 1}},
		{3, []int{1000, 1, 1}, []int{1, 1, 1}},
		{10, []int{1000, 1, 1}, []int{8, 1, 1}},
		{10, []int{1, 1000, 1, 700}, []int{1, 5, 1, 3}},
		{500, []int{1000, 1000}, []int{250, 250}},
	} {
		if diff := cmp.Diff(c.want, divide(c.pairs, c.shares)); diff != "" {
			t.Errorf("%d pairs by %v (-want +got):\n%s", c.pairs, c.shares, diff)
		}
	}
}

// FuzzDivide checks that all pairs are given out and that every share has at least one. A share with more than one
// exceeds its exact part by less than a pair, and a larger share never has fewer pairs.
func FuzzDivide(f *testing.F) {
	f.Add(10, []byte{3, 1})
	f.Add(500, []byte{255, 1, 1, 1, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, pairs int, given []byte) {
		shares := make([]int, 0, maxMembers)
		for _, s := range given[:min(len(given), maxMembers)] {
			shares = append(shares, int(s)+1)
		}
		if pairs < len(shares) || len(shares) == 0 || pairs > maxPairs {
			return
		}
		counts, sum, all := divide(pairs, shares), 0, 0
		for i := range shares {
			sum += shares[i]
			all += counts[i]
		}
		if all != pairs || slices.Min(counts) < 1 {
			t.Fatalf("%d pairs by %v: %v", pairs, shares, counts)
		}
		for i, n := range counts {
			if n > 1 && n*sum-pairs*shares[i] >= sum {
				t.Fatalf("%d pairs by %v: %v", pairs, shares, counts)
			}
			for j, m := range counts {
				if shares[i] > shares[j] && n < m {
					t.Fatalf("%d pairs by %v: %v: the larger share has less", pairs, shares, counts)
				}
			}
		}
	})
}
