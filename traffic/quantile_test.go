package traffic_test

import (
	"math"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// Gaps and lengths follow their quantile functions and no other distribution, in the whole table and in any part of it.
func TestQuantiles(t *testing.T) {
	gaps, lengths := distuv.Weibull{K: 1.7, Lambda: 0.004}, distuv.Normal{Mu: 600, Sigma: 50}
	s, err := traffic.NewSchedule(traffic.ScheduleSpec{
		Gaps: gaps.Quantile, Lengths: lengths.Quantile, Least: 24, Most: 1400, Seed: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 / gaps.Mean(); math.Abs(s.Rate()/want-1) > 1e-3 {
		t.Errorf("a rate of %v, want %v", s.Rate(), want)
	}
	for trial := range uint64(4) {
		s.Begin(trial)
		for _, n := range []int{500, 5000, 1 << 14} {
			var between, long []float64
			for i := range uint64(n) {
				between = append(between, float64(s.Due(i+1)-s.Due(i))/1e9)
				long = append(long, float64(s.Size(i)))
			}
			if d := workloadtest.Apart(between, gaps.CDF); d > workloadtest.Critical(n) {
				t.Errorf("trial %d: %d gaps are %.4f off their distribution (want at most %.4f)", trial, n, d,
					workloadtest.Critical(n))
			}
			if d := workloadtest.Apart(long, workloadtest.Whole(lengths.CDF)); d > workloadtest.Critical(n) {
				t.Errorf("trial %d: %d lengths are %.4f off their distribution (want at most %.4f)", trial, n, d,
					workloadtest.Critical(n))
			}
			// A distribution with the same mean and another shape is distinguished.
			if d := workloadtest.Apart(between, distuv.Exponential{Rate: 1 / gaps.Mean()}.CDF); d < 2*workloadtest.Critical(n) {
				t.Errorf("trial %d: %d gaps are %.4f off another distribution", trial, n, d)
			}
		}
	}
	if _, err := traffic.NewSchedule(traffic.ScheduleSpec{
		Gaps: func(float64) float64 { return 0 }, Sizes: "constant", Size: 9, Least: 1, Most: 9,
	}); err == nil {
		t.Error("gaps of nothing make a schedule")
	}
	s = schedule(t, func(spec *traffic.ScheduleSpec) { spec.Gaps, spec.Rate = gaps.Quantile, 50 })
	if math.Abs(s.Rate()-50) > 1e-9 || s.Size(3) != 500 {
		t.Errorf("gaps at a rate of their own: %v a second of %d bytes", s.Rate(), s.Size(3))
	}
}

// Stretches follow one another without a gap or an overlap.
func TestStretches(t *testing.T) {
	s := schedule(t, func(*traffic.ScheduleSpec) {})
	s.Stretch([]float64{1000, 500, 100}, []time.Duration{2500 * time.Microsecond, 4 * time.Millisecond, time.Second})
	for number, want := range map[uint64]int64{0: 0, 1: 1e6, 2: 2e6, 3: 3e6, 4: 5e6, 5: 7e6, 6: 17e6, 106: 1017e6} {
		if got := s.Due(number); got != want {
			t.Errorf("message %d is due after %d ns, want %d", number, got, want)
		}
	}
	if got := s.Before(7e6); got != 5 {
		t.Errorf("%d messages before 7 ms, want 5", got)
	}
	if n := testing.AllocsPerRun(10, func() {
		s.Stretch([]float64{2000, 1}, []time.Duration{time.Second, time.Second})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := s.Due(2000); got != 1e9 {
		t.Errorf("the second stretch begins after %d ns", got)
	}
}
