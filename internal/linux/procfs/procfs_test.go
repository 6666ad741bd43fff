package procfs

import (
	"math"
	"testing"
	"time"
)

func TestParseCPUTime(t *testing.T) {
	got, err := parseCPUTime([]byte("cpu  100 2 300 4000 5 6 7 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"))
	if err != nil || got["user"] != 1 || got["idle"] != 40 || got["steal"] != 0.08 {
		t.Fatalf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6 7 8", "cpu a 1 1 1 1 1 1 1"} {
		if _, err := parseCPUTime([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// The modes of all CPUs add up to the elapsed time times the number of CPUs. The clock is not read together with the
// CPU times, and on a busy machine much time may pass in between. So only one of several tries has to agree.
func TestCoresAddUp(t *testing.T) {
	n := float64(Machine()["cpus"].(int))
	var sums []float64
	for range 5 {
		before, err := ReadCPUTime()
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.Sleep(300 * time.Millisecond) // the interval to measure, not a wait for a state
		after, err := ReadCPUTime()
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, c := range Cores(before, after, time.Since(start).Seconds()) {
			sum += c
		}
		if math.Abs(sum-n) <= 0.35*n {
			return
		}
		sums = append(sums, sum)
	}
	t.Errorf("the modes add up to %.2f cores, want about %v", sums, n)
}
