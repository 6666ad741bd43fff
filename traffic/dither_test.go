package traffic

import (
	"math"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/clock"
)

// Without dither an answer is found a whole number of looks after its request. With it the mean follows the round trip,
// also if the time of a look was measured wrongly by a tenth.
func TestDither(t *testing.T) {
	const look, trips = 300.0, 2000
	for _, c := range []struct{ measured, off float64 }{{look, 1}, {look * 0.9, 0.1 * look}, {look * 1.1, 0.1 * look}} {
		var d Dither
		d.look = int64(c.measured)
		for arrives := 2000.0; arrives < 2000+2*look; arrives += 17 {
			var sum float64
			for range trips {
				first := float64(d.next())
				if first < 0 || first > ditherLooks*c.measured {
					t.Fatalf("the first look is after %v ns, want at most %v", first, ditherLooks*c.measured)
				}
				sum += first + look*math.Ceil((arrives-first)/look)
			}
			if found, want := sum/trips, arrives+look/2; math.Abs(found-want) > c.off {
				t.Errorf("answers that arrive after %v ns are found after %.1f on average, want %.1f ± %v (a look counts as %v ns)",
					arrives, found, want, c.off, c.measured)
			}
		}
	}
}

// A source that spins waits for as long as the dither says.
func TestDitherWaits(t *testing.T) {
	var d, same Dither
	d.Measure(func() {
		spin := Delay{length: 100_000}
		spin.Spin()
	})
	if d.look != longest {
		t.Fatalf("a look of 100 µs counts as %d ns, want no more than %d", d.look, longest)
	}
	d.Measure(func() {})
	if d.look >= longest {
		t.Fatalf("no look at all counts as %d ns", d.look)
	}
	d.look = longest
	same = d
	for range 10 {
		want, start := same.next(), clock.Now()
		d.Wait()
		if got := clock.Now() - start; got < want {
			t.Errorf("waited %d ns, want at least %d", got, want)
		}
	}
}
