package udprate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A search converges to any rate, from either side, in few steps.
func TestSearch(t *testing.T) {
	for _, tt := range []struct {
		name                     string
		capacity, tooHigh, guess float64
	}{
		{"what is received of a flood is right", 1e5, 3e5, 1e5},
		{"a flood brings the receiver to its knees", 1e5, 3e5, 1e4},
		{"it hides a queue", 1e5, 3e5, 1.2e5},
		{"hardly more than the path carries", 0.999e5, 1e5, 0.9995e5},
		{"nothing is received of it", 1e5, 3e5, 0},
		{"a thousandth", 300, 3e5, 1e5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var q search
			q.begin(tt.tooHigh, tt.guess)
			steps := 0
			for ; !q.done() && steps < 100; steps++ {
				q.note(q.rate <= tt.capacity)
			}
			if q.low > tt.capacity || q.low < tt.capacity/(1+width)-1e-9 {
				t.Errorf("after %d steps it found %g, want %g less 1 %%", steps, q.low, tt.capacity)
			}
			if steps > 40 {
				t.Errorf("%d steps", steps)
			}
		})
	}
}

// If one step in ten fails although the rate is not too high, a rate rarely fails twice in a row.
func TestSearchSpoiledSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const capacity, runs = 1e5, 1000
	right := 0
	for range runs {
		var q search
		q.begin(3*capacity, capacity)
		for range 40 {
			if q.done() {
				break
			}
			q.note(q.rate <= capacity && rng.Float64() > 0.1)
		}
		if math.Abs(q.low/capacity-1) < 2*width {
			right++
		}
	}
	if right < 0.9*runs {
		t.Errorf("%d of %d searches were right", right, runs)
	}
}

// A step is good if hardly anything was lost, everything was sent, and no queue has hidden an overload.
func TestOutcome(t *testing.T) {
	good := outcome{sent: 1000, received: 999, window: 40e6, late: 1e6, asked: 25000, answered: true}
	for _, tt := range []struct {
		name   string
		change func(*outcome)
		want   bool
	}{
		{"good", func(*outcome) {}, true},
		{"a flood", func(o *outcome) { o.asked = 0 }, true},
		{"no loss at all", func(o *outcome) { o.received = 1000 }, true},
		{"one more lost", func(o *outcome) { o.received = 998 }, false},
		{"nobody answered", func(o *outcome) { o.answered = false }, false},
		{"the source did not keep up", func(o *outcome) { o.asked = 26000 }, false},
		{"a queue was filled", func(o *outcome) { o.late = 2e6 }, false},
		{"nothing was sent", func(o *outcome) { o.sent, o.received = 0, 0 }, false},
	} {
		o := good
		tt.change(&o)
		if got := o.good(0.001); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
