package udprate

import (
	"encoding/binary"
	"math"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/traffic"
)

const (
	// A trial has at most this many short steps, or fewer and some long ones, each a fifth of it: 40 ms and 200 ms in a
	// trial of 1 s. 40 ms at 25,000 datagrams a second are 1000, of which one is a loss of 0.1 %, and ten ticks.
	shortSteps = 25
	longSteps  = 5

	// A delay at the end of a step means that the path was overloaded, although its queues held the excess: the answer
	// to the end marker is later by that much. On an idle path, it takes up to slack, with two wake-ups. In addition, a
	// step may be late by slackShare of its length.
	slack      = 1_000_000 // ns
	slackShare = 0.01

	// A step in which a thread had no CPU for a longer time is repeated, and does not decide. It is a quarter of a
	// tick.
	spoils = 1_000_000 // ns

	// behind is the share by which a step may send less than it should.
	behind = 0.01

	between = 5_000_000 // ns: the time that must be left after a step for its end marker and that of the trial
)

const (
	noRate    = "no rate was found with a loss below the bound"
	noCPU     = "no rate was found: in most steps the source or the sink lost its CPU for more than a millisecond"
	shortOnly = "the rate below the loss bound was only held for a short step, because the trial ended: use longer " +
		"trials (--trial 2s)"
)

// seeker is a source's search, within a trial, for the highest rate with a loss below a limit.
type seeker struct {
	search
	bound float64
	close int64 // when it must be over
	wait  int64 // ns: how long the end of a step may take
	sink  int64 // ns: how long its thread had no CPU, as last reported
	tries [mostSteps]outcome
}

// outcome is the outcome of a step.
type outcome struct {
	sent, received, window int64   // window in ns
	late                   int64   // ns: how long after its end everything sent had arrived or was lost
	stolen                 int64   // ns in which one of the two threads was ready to run without a CPU
	asked                  float64 // wanted datagrams a second; 0: as many as possible
	answered               bool
}

func (o outcome) rate() float64 { return float64(o.sent) / float64(o.window) * 1e9 }

// good reports whether the path carried what had to be sent.
func (o outcome) good(bound float64) bool {
	return o.answered && o.sent > 0 &&
		float64(o.sent-o.received) <= bound*float64(o.sent) &&
		float64(o.sent) >= (1-behind)*o.asked*float64(o.window)/1e9-1 &&
		float64(o.late) <= slack+slackShare*float64(o.window)
}

// spoiled reports whether a step that is not good proves nothing.
func (o outcome) spoiled() bool { return o.stolen > spoils }

// seek searches until the close.
func (s *source) seek(trial uint64, w traffic.Window) {
	k := s.seeker
	short, long := (w.Close-w.Open)/shortSteps, (w.Close-w.Open)/longSteps
	k.close, k.wait, k.sink = w.Close, max(long, limit), 0
	if s.flood(trial, short, long) {
		return
	}
	for !k.done() && s.left(short+mostFails*long) {
		if o := s.try(trial, k.rate, short); o.good(k.bound) || !o.spoiled() {
			k.note(o.good(k.bound))
		}
	}
	// A rate counts only if it was confirmed by a long step.
	refuted, stride := math.Inf(1), 2*width
	for rate := k.low; rate > 0 && s.left(long); {
		o := s.try(trial, rate, long)
		if o.good(k.bound) {
			s.settle(o)
			return
		}
		if o.spoiled() {
			continue
		}
		if k.fails++; k.fails >= mostFails {
			refuted, rate = rate, rate*(1-stride)
			k.fails, stride = 0, 2*stride
		}
	}
	best, spoiled := outcome{}, 0
	for _, o := range k.tries[:s.step] {
		if !o.good(k.bound) && o.spoiled() {
			spoiled++
		}
		if o.good(k.bound) && o.rate() < refuted && (best.window == 0 || o.rate() > best.rate()) {
			best = o
		}
	}
	switch {
	case best.window > 0:
		s.sample.Doubt = shortOnly
	case 2*spoiled > int(s.step):
		s.sample.Failure = noCPU
		return
	}
	s.settle(best)
}

// flood measures the received rate while the source sends as fast as it can. If nothing is lost during a long flood,
// there is nothing to search.
func (s *source) flood(trial uint64, short, long int64) (found bool) {
	k := s.seeker
	o := s.try(trial, 0, short)
	if o.good(k.bound) {
		if o = s.try(trial, 0, long); o.good(k.bound) {
			s.settle(o)
			return true
		}
	}
	k.begin(o.rate(), float64(o.received)/float64(o.window+o.late)*1e9)
	return false
}

// left reports whether this many ns are left.
func (s *source) left(ns int64) bool {
	return clock.Now()+ns+between <= s.seeker.close && s.step < mostSteps-1
}

// try sends at a rate for this many ns, and returns the outcome.
func (s *source) try(trial uint64, rate float64, length int64) outcome {
	o := outcome{asked: rate}
	delay := thread.Delay()
	open := clock.Now()
	s.sample.Sent = 0
	step := traffic.Window{Open: open, Start: open, Close: open + length}
	if rate > 0 {
		s.schedule.SetRate(rate)
		s.pace(trial, step)
		s.rest(step.Close)
		o.window = length
	} else {
		s.send(trial, step)
		o.window = clock.Now() - open
	}
	o.sent = s.sample.Sent
	o.received, o.answered = s.end(trial, 0, min(s.seeker.wait, s.seeker.close-clock.Now()))
	o.late = max(0, clock.Now()-open-o.window)
	o.stolen = thread.Delay() - delay
	if o.answered {
		sink := int64(binary.LittleEndian.Uint64(s.answer[traffic.HeaderSize:]))
		o.stolen += sink - s.seeker.sink
		s.seeker.sink = sink
	}
	s.seeker.tries[s.step] = o
	s.step++
	clear(s.numbers[:])
	return o
}

// settle copies the step that counts into the sample.
func (s *source) settle(o outcome) {
	s.sample.Sent, s.sample.Received, s.sample.Window = o.sent, o.received, o.window
	if o.window == 0 && s.sample.Total > 0 { // otherwise it was refused, see Collect
		s.sample.Failure = noRate
	}
}
