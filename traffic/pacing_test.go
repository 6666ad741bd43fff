package traffic_test

import (
	"testing"

	"github.com/nettoll/nettoll/traffic"
)

// A schedule keeps its rate for a week, and neighbours are as far apart as it says.
func TestDue(t *testing.T) {
	const week = 7 * 24 * 3600
	for _, rate := range []float64{0.5, 1, 3, 999.9, 1e6, 14.88e6} {
		if got := traffic.Due(0, rate); got != 0 {
			t.Errorf("%g a second: the first is due at %d", rate, got)
		}
		n := uint64(rate * week)
		last := float64(traffic.Due(n, rate)) / 1e9
		if want := float64(n) / rate; last < want-1e-6 || last > want+1e-6 {
			t.Errorf("%g a second: number %d is due at %.9f s, want %.9f", rate, n, last, want)
		}
		if gap := traffic.Due(n+1, rate) - traffic.Due(n, rate); float64(gap) < 1e9/rate-200 || float64(gap) > 1e9/rate+200 {
			t.Errorf("%g a second: after a week neighbours are %d ns apart", rate, gap)
		}
	}
}
