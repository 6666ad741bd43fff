package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A ScheduleSpec describes a schedule.
type ScheduleSpec struct {
	Rate     float64 // messages a second, on average; 0: as given by a replayed file or Gaps
	Arrivals string  // when they are due: see [ParseArrivals]
	Sizes    string  // how long they are: see [ParseSizes]
	Size     int     // bytes on average, before sizes are changed to fit the limits
	Least    int     // bytes of the shortest possible message
	Most     int     // and of the longest
	Seed     uint64

	// Senders is the number of senders, each with an equal share of the rate. The messages of a sender are due evenly,
	// from a start that is drawn for it alone, anew in each trial. Arrivals must be constant. 0: one sender, from the
	// opening on.
	Senders int

	// Gaps and Lengths are quantile functions, of p between 0 and 1, for distributions without a name: of the s between
	// two messages, instead of Arrivals, and of bytes, instead of Sizes and Size.
	Gaps, Lengths func(p float64) float64
}

// The table of a schedule holds the gaps of a fixed number of messages, which then repeat in the same order. At 10,000
// a second, that is after 1.6 s, which is longer than most trials.
const (
	tableBits = 14
	tableSize = 1 << tableBits
	tableMask = tableSize - 1
)

// A Schedule gives the due time and the length of each message of a trial. These are pure functions of the message's
// number, so that a late source catches up, two stacks get the same arrivals, and a schedule can be tested without
// sleeping.
//
// The gaps and sizes of a distribution are its quantiles at the middles of 16384 equal shares, in an order from the
// seed. So they have exactly its mean and its shape, and only their order is random.
type Schedule struct {
	gap   float64             // ns between two messages, on average
	kind  scheduleKind        //
	sums  *[tableSize]float64 // by number: the sum of the gaps before it, as multiples of the mean
	from  uint64              // where in the table this trial starts
	size  int                 // bytes of each message, if all are equal
	sizes *[tableSize]int32   // otherwise bytes by number

	// for several senders
	senders []sender // in the order in which their messages are due
	turns   []int32  // by number of the sender: its position in that order
	seed    uint64

	// for stretches
	stretches []stretch

	// for bursts
	perPeriod  float64 // messages in a period of on and off
	on, period float64 // ns

	// for a replayed file
	replay []Arrival
	length float64 // ns from one start of the file to the next
	scale  float64 // ns of the schedule per ns of the file
}

type scheduleKind int

const (
	evenly scheduleKind = iota
	tabled
	inStretches
	inBursts
	replayed
	ofSenders
)

// NewSchedule makes a schedule. It does all the slow work: Due and Size only look things up.
func NewSchedule(spec ScheduleSpec) (*Schedule, error) {
	if spec.Gaps != nil {
		return newGapped(spec)
	}
	a, err := parseArrivals(spec.Arrivals)
	if err != nil {
		return nil, err
	}
	if spec.Rate <= 0 && a.file == "" || math.IsNaN(spec.Rate) || math.IsInf(spec.Rate, 0) {
		return nil, fmt.Errorf("schedule of %g messages a second (valid: more than 0)", spec.Rate)
	}
	s := &Schedule{gap: 1e9 / spec.Rate, size: spec.Size, seed: spec.Seed}
	switch {
	case spec.Senders > 0 && a.name != constant:
		return nil, fmt.Errorf("schedule of %d senders with arrivals %q (valid: %s)", spec.Senders, spec.Arrivals, constant)
	case spec.Senders > 0:
		s.kind = ofSenders
		s.senders, s.turns = make([]sender, spec.Senders), make([]int32, spec.Senders)
		s.draw(0)
	case a.file != "":
		if err := s.replays(a, spec.Rate); err != nil {
			return nil, err
		}
	case a.on > 0:
		s.kind, s.on, s.period = inBursts, float64(a.on), float64(a.on+a.off)
		s.perPeriod = spec.Rate * s.period / 1e9
	case a.name != constant:
		s.cumulate(a.table(rand.New(rand.NewPCG(spec.Seed, 'a'))))
	}
	return s, s.lengths(spec)
}

// newGapped makes a schedule whose gaps have a quantile function.
func newGapped(spec ScheduleSpec) (*Schedule, error) {
	gaps := stratified(spec.Gaps, rand.New(rand.NewPCG(spec.Seed, 'a')))
	mean := unit(gaps)
	if !(mean > 0) || math.IsInf(mean, 0) {
		return nil, fmt.Errorf("schedule of gaps of %g s on average (valid: more than 0)", mean)
	}
	if spec.Rate > 0 {
		mean = 1 / spec.Rate
	}
	s := &Schedule{gap: mean * 1e9, size: spec.Size}
	s.cumulate(gaps)
	return s, s.lengths(spec)
}

// cumulate makes the table of gaps, which have a mean of 1.
func (s *Schedule) cumulate(gaps []float64) {
	s.kind, s.sums = tabled, new([tableSize]float64)
	sum := 0.0
	for i, gap := range gaps {
		s.sums[i] = sum
		sum += gap
	}
}

// lengths makes the table of sizes.
func (s *Schedule) lengths(spec ScheduleSpec) error {
	fit := func(size float64) int32 { return int32(min(max(size, float64(spec.Least)), float64(spec.Most))) }
	if spec.Lengths != nil {
		s.sizes = new([tableSize]int32)
		for i, x := range stratified(spec.Lengths, rand.New(rand.NewPCG(spec.Seed, 's'))) {
			s.sizes[i] = fit(math.Round(x))
		}
		return nil
	}
	d, err := parseSizes(spec.Sizes)
	if err != nil {
		return err
	}
	switch {
	case d.name != constant:
		s.sizes = new([tableSize]int32)
		for i, x := range d.table(rand.New(rand.NewPCG(spec.Seed, 's'))) {
			s.sizes[i] = fit(math.Round(x * float64(spec.Size)))
		}
	case s.kind == replayed:
		for i, a := range s.replay {
			if a.Size == 0 {
				a.Size = spec.Size
			}
			s.replay[i].Size = int(fit(float64(a.Size)))
		}
	case spec.Size < spec.Least || spec.Size > spec.Most:
		return fmt.Errorf("messages of %d bytes (valid: %d to %d)", spec.Size, spec.Least, spec.Most)
	}
	return nil
}

// Begin chooses where in its arrivals a trial starts, by the number of the trial: trials with the same number have the
// same arrivals in all stacks.
func (s *Schedule) Begin(trial uint64) {
	if s.kind == tabled || s.sizes != nil {
		s.from = rand.New(rand.NewPCG(trial, 'b')).Uint64() & tableMask
	}
	if s.kind == ofSenders {
		s.draw(trial)
	}
}

// A sender is one of several senders.
type sender struct {
	phase  float64 // due time of its first message, as a share of its gap
	number int32
}

// draw chooses the start of each sender in a trial, by the number of the trial and independently of the others. It does
// not allocate.
func (s *Schedule) draw(trial uint64) {
	var random rand.PCG
	random.Seed(s.seed, trial)
	for i := range s.senders {
		const digits = 53 // of a float64
		s.senders[i] = sender{float64(random.Uint64()>>(64-digits)) / (1 << digits), int32(i)}
	}
	slices.SortFunc(s.senders, func(x, y sender) int { return cmp.Compare(x.phase, y.phase) })
	for turn, x := range s.senders {
		s.turns[x.number] = int32(turn)
	}
}

// Senders returns the number of senders; 0 if messages have no sender.
func (s *Schedule) Senders() int { return len(s.senders) }

// Sender returns the sender of the turn-th message of each round, from 0. Without senders, it returns the turn.
//
//go:nosplit
func (s *Schedule) Sender(turn int) int {
	if s.kind == ofSenders {
		return int(s.senders[turn].number)
	}
	return turn
}

// Turn returns the position of a sender in each round.
//
//go:nosplit
func (s *Schedule) Turn(sender int) int {
	if s.kind == ofSenders {
		return int(s.turns[sender])
	}
	return sender
}

// Rate returns the average number of messages a second; with stretches, that of the first one.
func (s *Schedule) Rate() float64 {
	if s.kind == replayed {
		return float64(len(s.replay)) / (s.length * s.scale) * 1e9
	}
	return 1e9 / s.gap
}

// SetRate changes the average number of messages a second, for a rate that is determined while the schedule is in use.
// It does not allocate.
func (s *Schedule) SetRate(rate float64) {
	s.gap, s.perPeriod = 1e9/rate, rate*s.period/1e9
	if s.kind == replayed {
		s.scale = float64(len(s.replay)) / rate * 1e9 / s.length
	}
}

// A stretch is a part of a schedule in which messages are due evenly.
type stretch struct {
	first      uint64  // number of its first message
	begin, gap float64 // ns
}

// Stretch makes messages due evenly at one rate for a time, then at the next rate for its time, and so on. Rates are in
// messages a second, and the last one has no end. It does not allocate if the schedule already had as many stretches.
func (s *Schedule) Stretch(rates []float64, times []time.Duration) {
	s.kind, s.stretches = inStretches, s.stretches[:0]
	next := stretch{}
	for i, rate := range rates {
		next.gap = 1e9 / rate
		s.stretches = append(s.stretches, next)
		messages := max(1, math.Ceil(float64(times[i])/next.gap))
		next.first += uint64(messages)
		next.begin += messages * next.gap
	}
	s.gap = s.stretches[0].gap
}

// Due returns when the message with a number (from 0) is due, in ns since the opening.
//
//go:nosplit
func (s *Schedule) Due(number uint64) int64 {
	switch s.kind {
	case tabled:
		return int64((s.sum(s.from+number) - s.sum(s.from)) * s.gap)
	case inStretches:
		i := 0
		for i+1 < len(s.stretches) && number >= s.stretches[i+1].first {
			i++
		}
		at := &s.stretches[i]
		return int64(at.begin + float64(number-at.first)*at.gap)
	case inBursts:
		at := float64(number) / s.perPeriod
		periods := float64(uint64(at))
		return int64(periods*s.period + (at-periods)*s.on)
	case replayed:
		n := uint64(len(s.replay))
		return int64((float64(number/n)*s.length + float64(s.replay[number%n].At)) * s.scale)
	case ofSenders:
		n := uint64(len(s.senders))
		round := number / n
		return int64((float64(round) + s.senders[number-round*n].phase) * s.gap * float64(n))
	default:
		return int64(float64(number) * s.gap)
	}
}

// Before returns the number of messages due before a time, in ns since the opening.
func (s *Schedule) Before(since int64) uint64 {
	lo, hi := uint64(0), uint64(1)
	for s.Due(hi-1) < since {
		lo, hi = hi, 2*hi
	}
	for lo < hi {
		if middle := lo + (hi-lo)/2; s.Due(middle) < since {
			lo = middle + 1
		} else {
			hi = middle
		}
	}
	return lo
}

// Unsent returns how many messages were due inside the window and had not been sent at its close. next is the number of
// the first unsent message, and begin the start of the schedule. A source that stands still at the end of a trial would
// otherwise hide them (coordinated omission).
func (s *Schedule) Unsent(next uint64, begin int64, w Window) int64 {
	return max(0, int64(s.Before(w.Close-begin))-int64(max(next, s.Before(w.Start-begin))))
}

// sum returns the number of mean gaps before a message.
//
//go:nosplit
func (s *Schedule) sum(number uint64) float64 {
	return float64(number&^uint64(tableMask)) + s.sums[number&tableMask]
}

// Size returns the length of a message in bytes.
//
//go:nosplit
func (s *Schedule) Size(number uint64) int {
	switch {
	case s.sizes != nil:
		return int(s.sizes[(s.from+number)&tableMask])
	case s.kind == replayed:
		return s.replay[number%uint64(len(s.replay))].Size
	default:
		return s.size
	}
}

// replays reads the file.
func (s *Schedule) replays(a arrivals, rate float64) error {
	list, err := readReplay(a.file, a.sum)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("replay without messages")
	}
	// After the last message, a mean gap passes before the first one is repeated.
	s.kind, s.replay, s.scale = replayed, list, 1
	last := float64(list[len(list)-1].At)
	s.length = last + last/float64(max(1, len(list)-1))
	if s.length == 0 {
		return fmt.Errorf("replay %q: all messages are due at the same time", a.file)
	}
	if rate > 0 {
		s.scale = float64(len(list)) / rate * 1e9 / s.length
	}
	s.gap = s.length * s.scale / float64(len(list))
	return nil
}
