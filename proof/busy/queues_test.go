package busy

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever looks for what arrives waits for what waits, and for who has taken the last of it.
func TestDrain(t *testing.T) { synctest.Test(t, drain) }

func drain(t *testing.T) {
	for _, c := range []struct {
		left       []uint64
		asked, did int
		least      time.Duration
	}{{left: []uint64{0}, asked: 1}, {left: []uint64{9, 4, 0}, asked: 3, did: 2, least: batch}} {
		asked, did, began := 0, 0, time.Now()
		err := Drain(func() uint64 { asked++; return c.left[asked-1] }, func() { did++ })
		if err != nil || asked != c.asked || did != c.did || time.Since(began) < c.least {
			t.Errorf("%v: asked %d times, worked %d times in %v (%v)", c.left, asked, did, time.Since(began), err)
		}
	}
	asked := 0
	err := Drain(func() uint64 { asked++; return 7 }, nil)
	if err == nil || !strings.Contains(err.Error(), "have not read 7 bytes of packets after 10s") || asked != looks+1 {
		t.Errorf("a queue that nobody reads: %v, asked %d times", err, asked)
	}
}
