package detour

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// TestQueueOrder checks that frames leave in the order in which they arrived, whatever their lengths and however often
// the ring is full. Each leaves when it is due, and not before the previous one.
func TestQueueOrder(t *testing.T) {
	const frames = 20000
	f := Fate{Delay: time.Millisecond, Jitter: 300 * time.Microsecond}
	q, sizes := NewQueue(f, make([]byte, 4*largest), seeded()), rand.New(rand.NewPCG(3, 4))
	var last int64
	next, accepted := 0, []uint64{}
	took := func(now int64) {
		for {
			frame, due := q.Next()
			if frame == nil || due > now {
				return
			}
			want := accepted[next]
			if got := binary.BigEndian.Uint64(frame); got != want || !bytes.Equal(frame[8:], pattern(len(frame)-8, want)) {
				t.Fatalf("frame %d comes out as %d, or other than it was", want, got)
			}
			if due < last {
				t.Fatalf("frame %d is due before the one before it", want)
			}
			last = due
			next++
			q.Drop()
		}
	}
	for i := range uint64(frames) {
		now := int64(i) * 10_000
		took(now)
		n := 8 + sizes.IntN(1500)
		if i%50 == 0 {
			n = 8 + sizes.IntN(largest-8)
		}
		space, full := q.Space(), q.Full
		binary.BigEndian.PutUint64(space, i)
		copy(space[8:], pattern(n-8, i))
		if q.Add(n, now); q.Full == full {
			accepted = append(accepted, i)
		}
	}
	took(math.MaxInt64)
	if next != len(accepted) || q.Full+next != frames {
		t.Errorf("%d of %d frames come out, and there was no room for %d", next, frames, q.Full)
	}
	if q.Full == 0 || q.Full > frames/2 {
		t.Errorf("there was no room for %d of %d frames: the ring is not tried", q.Full, frames)
	}
}

func pattern(n int, of uint64) []byte { return bytes.Repeat([]byte{byte(of*7 + 1)}, n) }

// TestQueueJitter checks that delays are spread evenly between their limits if frames are far apart.
func TestQueueJitter(t *testing.T) {
	const frames, apart = 20000, 1e9
	f := Fate{Delay: 10 * time.Millisecond, Jitter: 4 * time.Millisecond}
	q := NewQueue(f, make([]byte, 4*largest), seeded())
	var sum, squares float64
	least, most := time.Hour, time.Duration(0)
	for i := range int64(frames) {
		q.Add(64, i*apart)
		_, due := q.Next()
		q.Drop()
		d := time.Duration(due - i*apart)
		least, most = min(least, d), max(most, d)
		off := (d - f.Delay).Seconds() / f.Jitter.Seconds()
		sum, squares = sum+off, squares+off*off
	}
	if least < f.Delay-f.Jitter || most > f.Delay+f.Jitter {
		t.Errorf("delays from %v to %v, want %v ± %v", least, most, f.Delay, f.Jitter)
	}
	// of a uniform distribution from -1 to 1: the mean 0, the variance 1/3
	if mean, variance := sum/frames, squares/frames; math.Abs(mean) > 0.02 || math.Abs(variance-1./3) > 0.01 {
		t.Errorf("the delays have mean %.3f and variance %.3f, want 0 and 0.333", mean, variance)
	}
}

// TestQueueLoss checks that the right share of frames is dropped, each independently of the previous one.
func TestQueueLoss(t *testing.T) {
	const frames, loss = 100000, 0.1
	q := NewQueue(Fate{Loss: loss}, make([]byte, 4*largest), seeded())
	both, was := 0, false
	for range frames {
		before := q.Lost
		q.Add(64, 0)
		lost := q.Lost > before
		if lost && was {
			both++
		} else if !lost {
			q.Drop()
		}
		was = lost
	}
	if share := float64(q.Lost) / frames; math.Abs(share-loss) > 5*math.Sqrt(loss*(1-loss)/frames) {
		t.Errorf("%.4f of the frames are lost, want %v", share, loss)
	}
	if share := float64(both) / frames; math.Abs(share-loss*loss) > 0.002 {
		t.Errorf("%.4f of the frames are lost right after another, want %v", share, loss*loss)
	}
	if q.Full > 0 {
		t.Errorf("there is no room for %d frames", q.Full)
	}
}

// TestArgs checks that parsing returns the values given to Args.
func TestArgs(t *testing.T) {
	want := Fate{Delay: 1500 * time.Microsecond, Jitter: time.Nanosecond, Loss: 0.001}
	tap, mtu, got, err := parse(Args("dhost1", 9000, want))
	if err != nil || tap != "dhost1" || mtu != 9000 || got != want {
		t.Errorf("%q, %d, %v, %v", tap, mtu, got, err)
	}
	for i, bad := range []string{1: "x", 2: "x", 3: "x", 4: "x"} {
		args := Args("dhost1", 9000, want)
		if i == 0 {
			args = args[1:]
		} else {
			args[i] = bad
		}
		if _, _, _, err := parse(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestRoom checks that the room fits the frames under way, within limits.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		delay time.Duration
		want  int
	}{{0, 31.25e6}, {75 * time.Millisecond, 125e6}, {10 * time.Second, 256 << 20}} {
		if got := (Fate{Delay: c.delay}).Room(); got != c.want {
			t.Errorf("delay %v: room for %d bytes, want %d", c.delay, got, c.want)
		}
	}
}
