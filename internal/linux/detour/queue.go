package detour

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Fate says what happens to frames.
type Fate struct {
	// Delay is how long each frame is kept, plus or minus Jitter: every delay from Delay-Jitter to Delay+Jitter is
	// equally likely. A frame never leaves before the previous one, so it may be kept longer.
	Delay, Jitter time.Duration
	// Loss is the share of frames that are dropped at random, from 0 to 1.
	Loss float64
}

// largest is the size in bytes of the largest frame.
const largest = link.LargestFrame

// A Queue holds frames until they are due, in the order of arrival.
type Queue struct {
	// Lost is the number of frames dropped at random, and Full the number dropped for lack of room.
	Lost, Full int

	fate    Fate
	random  *rand.Rand
	room    []byte // a ring
	scratch []byte // for frames that find no room
	waiting []waiting
	first   int // of waiting
	last    int64
}

// waiting is a frame in the room, from at to end, with the time at which it is due, in ns.
type waiting struct {
	due     int64
	at, end int
}

// NewQueue returns a queue with this room for frames, in bytes.
func NewQueue(f Fate, room []byte, random *rand.Rand) *Queue {
	return &Queue{fate: f, random: random, room: room, scratch: make([]byte, largest)}
}

// space returns the room for the next frame, and its offset; nil if there is none.
func (q *Queue) space() (at int, space []byte) {
	if q.first == len(q.waiting) {
		q.waiting, q.first = q.waiting[:0], 0
		return 0, q.room[:min(len(q.room), largest)]
	}
	head, tail := q.waiting[q.first].at, q.waiting[len(q.waiting)-1].end
	switch {
	case tail > head && len(q.room)-tail >= largest:
	case tail > head:
		tail = 0 // the ring continues at its beginning
		fallthrough
	default:
		if head-tail < largest {
			return 0, nil
		}
	}
	return tail, q.room[tail : tail+largest]
}

// Space returns the buffer for the next frame. [Queue.Add] receives its length.
func (q *Queue) Space() []byte {
	if _, space := q.space(); space != nil {
		return space
	}
	return q.scratch
}

// Add adds the frame of n bytes that was written to [Queue.Space] at a time.
func (q *Queue) Add(n int, now int64) {
	if q.fate.Loss > 0 && q.random.Float64() < q.fate.Loss {
		q.Lost++
		return
	}
	at, space := q.space()
	if space == nil {
		q.Full++
		return
	}
	due := now + int64(q.fate.Delay)
	if j := int64(q.fate.Jitter); j > 0 {
		due += q.random.Int64N(2*j+1) - j
	}
	q.last = max(q.last, due)
	if q.first > len(q.waiting)/2 && len(q.waiting) == cap(q.waiting) {
		q.waiting, q.first = append(q.waiting[:0], q.waiting[q.first:]...), 0
	}
	q.waiting = append(q.waiting, waiting{q.last, at, at + n})
}

// Next returns the next frame and the time at which it is due; nil if none waits. The frame is valid until
// [Queue.Drop].
func (q *Queue) Next() (frame []byte, due int64) {
	if q.first == len(q.waiting) {
		return nil, 0
	}
	w := q.waiting[q.first]
	return q.room[w.at:w.end:w.end], w.due
}

// Drop removes that frame.
func (q *Queue) Drop() { q.first++ }

// Room returns the room in bytes for a queue that never holds more than what arrives at 10 Gbit/s: at least for a
// thousand small frames, and at most 256 MiB.
func (f Fate) Room() int {
	const fastest, burst, least, most = 10e9 / 8, 25 * time.Millisecond, 16 << 20, 256 << 20
	return int(min(max(fastest*(f.Delay+f.Jitter+burst).Seconds(), least), most))
}

// Args returns the arguments of [Serve] for a TAP device with that name and MTU.
func Args(tap string, mtu int, f Fate) []string {
	return []string{
		tap, strconv.Itoa(mtu), f.Delay.String(), f.Jitter.String(), strconv.FormatFloat(f.Loss, 'g', -1, 64),
	}
}

// parse reads the arguments from [Args].
func parse(args []string) (tap string, mtu int, f Fate, err error) {
	if len(args) != 5 {
		return "", 0, f, fmt.Errorf("%d arguments (valid: the name of a TAP device, its MTU, delay, jitter and loss)",
			len(args))
	}
	if mtu, err = strconv.Atoi(args[1]); err != nil {
		return "", 0, f, fmt.Errorf("MTU %q: %w", args[1], err)
	}
	if f.Delay, err = time.ParseDuration(args[2]); err != nil {
		return "", 0, f, fmt.Errorf("delay: %w", err)
	}
	if f.Jitter, err = time.ParseDuration(args[3]); err != nil {
		return "", 0, f, fmt.Errorf("jitter: %w", err)
	}
	if f.Loss, err = strconv.ParseFloat(args[4], 64); err != nil {
		return "", 0, f, fmt.Errorf("loss %q: %w", args[4], err)
	}
	return args[0], mtu, f, nil
}
