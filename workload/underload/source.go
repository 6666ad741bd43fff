package underload

import (
	"slices"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

const (
	// floodPart is the part of the warm-up for the flood; the rest is for its queue to drain and for the load to become
	// steady.
	floodPart = 4

	// nap is the shortest time to the next datagram for which the source sleeps, and how much earlier than due that
	// sleep ends. Timers expire late (the slack of a thread's timers is 50 µs, prctl(2)).
	nap = 150_000 // ns

	// outstanding is the largest number of datagrams without an answer, a power of two: at 100,000 answers a second,
	// those of twice the drain.
	outstanding = 1 << 12

	// mostFloods is the largest number of floods in the median; later ones would not change it.
	mostFloods = 1 << 10

	// usualRate is the initial rate of a schedule whose rate is not known yet.
	usualRate = 100_000 // datagrams a second
)

const (
	noAnswer = "the flood that finds the capacity got no answer before the window opened (hint: use a longer trial)"
	noRate   = "no datagram of the flood that finds the capacity reached the sink in time"
)

// source sends the load and times the answers.
type source struct {
	endpoint
	out      []byte
	share    float64 // of the capacity; 0: the schedule has its own rate
	schedule *traffic.Schedule
	every    uint64
	trials   uint64    // number of trials so far
	floods   []float64 // delivered rates of all floods, ascending, within a capacity of mostFloods

	latency, service, departure *traffic.Recorder

	// State of one trial.
	awaits uint64               // sequence number of the last datagram to be answered, 0 after its answer
	asked  int64                // ns: when that datagram was sent
	open   [outstanding]request // those to be answered, by their number
	// datagrams a second: the sink's report of the flood; 0: nothing yet, -1: too little arrived
	found   int64
	over    bool       // the end marker was answered
	refused sock.Errno // why a datagram was not sent, or did not arrive, most recently
}

// request is a datagram to be answered. Times are in ns.
type request struct {
	number    uint64
	due, sent int64 // sent is 0 after the answer has arrived
}

func newSource(s workload.Spec, e endpoint) (traffic.Endpoint, error) {
	longest := s.Params.Size("payload")
	if workload.Varied(s.Params) {
		longest = largest
	}
	src := &source{
		endpoint: e, out: traffic.Payload(longest), share: s.Params.Share("share"),
		every:  uint64(s.Params.Count("answer-every")),
		floods: make([]float64, 0, mostFloods), latency: traffic.NewRecorder(), service: traffic.NewRecorder(),
		departure: traffic.NewRecorder(),
	}
	spec := traffic.ScheduleSpec{
		Rate: s.Params.Rate("rate"), Arrivals: s.Params["arrivals"], Sizes: s.Params["sizes"],
		Size: s.Params.Size("payload"), Least: traffic.HeaderSize, Most: largest, Seed: s.Seed,
	}
	if spec.Rate == 0 {
		spec.Rate = usualRate
	}
	var err error
	src.schedule, err = traffic.NewSchedule(spec)
	return src, err
}

func (s *source) header() *[traffic.HeaderSize]byte { return (*[traffic.HeaderSize]byte)(s.out) }

// Recorders implements [traffic.Endpoint].
func (s *source) Recorders() traffic.Recorders {
	return traffic.Recorders{traffic.Latency: s.latency, traffic.Service: s.service, traffic.Departure: s.departure}
}

// Prepare implements [traffic.Endpoint].
func (s *source) Prepare(trial uint64) {
	s.endpoint.Prepare(trial)
	r := s.Recorders()
	r.Reset()
	s.awaits, s.found, s.over, s.refused = 0, 0, false, 0
	clear(s.open[:])
	s.schedule.Begin(s.trials)
	s.trials++
}

// Run measures the capacity, sends the load until the close, and ends the trial.
func (s *source) Run(trial uint64, w traffic.Window) {
	begin := w.Open
	if s.share > 0 {
		s.flood(trial, w, w.Open+(w.Start-w.Open)/floodPart)
		if !s.calibrate() {
			return
		}
		begin = clock.Now()
	}
	next := s.load(trial, w, begin)
	s.sample.Unsent = s.schedule.Unsent(next, begin, w)
	s.end(trial, w)
}

// calibrate records the flood's result. It reports whether there is a capacity.
func (s *source) calibrate() bool {
	if s.found <= 0 {
		return false // Collect reports why
	}
	if len(s.floods) < cap(s.floods) {
		at, _ := slices.BinarySearch(s.floods, float64(s.found))
		s.floods = append(s.floods, 0)
		copy(s.floods[at+1:], s.floods[at:])
		s.floods[at] = float64(s.found)
	}
	n := len(s.floods)
	capacity := (s.floods[(n-1)/2] + s.floods[n/2]) / 2
	s.counts.capacity = int64(capacity)
	s.schedule.SetRate(s.share * capacity)
	return true
}

// flood sends as fast as it can until a time, and then waits for the sink's report: when that has arrived, all queues
// are empty.
//
//go:nosplit
func (s *source) flood(trial uint64, w traffic.Window, until int64) {
	for number := uint64(0); ; {
		now := clock.Now()
		if now >= until {
			s.sample.Total += int64(number)
			break
		}
		if s.send(trial, w, number, flooding, now, now) {
			number++
		}
		if s.awaits != 0 {
			s.look(trial, w)
		}
	}
	for s.found == 0 {
		now := clock.Now()
		if now >= w.Start {
			return
		}
		traffic.PutHeader(s.header(), trial, floodEnd, 0)
		s.sock.Send(&s.out[0], traffic.HeaderSize, sock.DontWait) // if it cannot be sent, the next one may be
		for next := min(now+markerEvery, w.Start); s.found == 0 && now < next; now = clock.Now() {
			s.pause(next - now)
			s.look(trial, w)
		}
	}
}

// load sends each datagram when it is due, and returns the number of the first unsent one. A late datagram is sent at
// once: the schedule does not move. (The functions of the loops are nosplit: without a stack check, there is no point
// at which the Go scheduler could take the thread.)
//
//go:nosplit
func (s *source) load(trial uint64, w traffic.Window, begin int64) (number uint64) {
	ahead := uint64(0) // the first that was not due yet
	for {
		due := begin + s.schedule.Due(number)
		if due >= w.Close {
			break
		}
		now := s.wait(trial, w, due)
		if now >= w.Close {
			break
		}
		if !s.send(trial, w, number, 0, due, now) {
			s.counts.blocked++
			continue
		}
		number++
		s.sample.Total++
		ahead = max(ahead, number)
		for begin+s.schedule.Due(ahead) <= now {
			ahead++
		}
		if now >= w.Start {
			s.sample.Sent++
			s.counts.backlog = max(s.counts.backlog, int64(ahead-number))
			s.departure.Record(now - due)
		}
	}
	s.wait(trial, w, w.Close) // the window has a fixed length, whatever is due
	return number
}

// send sends one datagram; one in every few is to be answered. It reports whether it was sent. The time in its header
// is when it is sent, even if it was due earlier: inside the window is what the path carries then, even with a load
// beyond its capacity.
//
//go:nosplit
func (s *source) send(trial uint64, w traffic.Window, number, flags uint64, due, now int64) bool {
	seq := number | flags
	index := number / s.every
	ask := index*s.every == number
	if ask {
		seq |= asked
	}
	traffic.PutHeader(s.header(), trial, seq, now-w.Open)
	if _, errno := s.sock.Send(&s.out[0], s.schedule.Size(number), sock.DontWait); errno != 0 {
		// The buffer is full, an earlier packet was refused, or a filter dropped it: it was not sent, and the clock
		// decides whether there is another try.
		if errno != sock.Again {
			s.refused = errno
		}
		return false
	}
	if ask {
		s.awaits, s.asked, s.open[index%outstanding] = seq, now, request{number, due, now}
	}
	return true
}

// wait looks for answers until a time, and at least once if one is outstanding. It sleeps if that time is far off and
// no answer is expected soon.
//
//go:nosplit
func (s *source) wait(trial uint64, w traffic.Window, until int64) int64 {
	for {
		if s.awaits != 0 {
			s.look(trial, w)
		}
		now := clock.Now()
		if now >= until {
			return now
		}
		if until-now > 2*nap && (s.awaits == 0 || now-s.asked > nap) {
			s.pause(until - now - nap)
		}
	}
}

// pause sleeps until something arrives, for at most this time.
//
//go:nosplit
func (s *source) pause(ns int64) {
	if !s.spin {
		s.sock.WaitRecv(ns)
	}
}

// look receives an answer, if there is one.
//
//go:nosplit
func (s *source) look(trial uint64, w traffic.Window) {
	n, errno := s.sock.Recv(&s.in[0], len(s.in), sock.DontWait)
	if errno != 0 && errno != sock.Again {
		s.refused = errno // nobody listens
	}
	if errno != 0 || n < traffic.HeaderSize {
		return
	}
	now := clock.Now()
	gotTrial, seq, since := traffic.Header(s.received())
	if gotTrial != trial {
		s.sample.Late++
		return
	}
	if seq == s.awaits {
		s.awaits = 0
	}
	switch {
	case seq == traffic.Marker:
		s.over = true
	case seq == floodEnd:
		s.found = since
	case seq&flooding == 0:
		s.answer(seq&^asked, since >= w.Start-w.Open, now)
	}
}

// answer handles the answer to a datagram of the load.
//
//go:nosplit
func (s *source) answer(number uint64, inside bool, now int64) {
	r := &s.open[number/s.every%outstanding]
	switch {
	case r.number != number: // another one has taken its place since, and must not get its time
		s.sample.Late++
		return
	case !inside:
	case r.sent == 0:
		s.counts.repeated++
	default:
		s.sample.Received++
		s.latency.Record(now - r.due)
		s.service.Record(now - r.sent)
	}
	r.sent = 0
}

// end sends the end marker until the sink has answered it, or for as long as a drain may take. Late answers arrive
// meanwhile.
//
//go:nosplit
func (s *source) end(trial uint64, w traffic.Window) {
	start := clock.Now()
	for number, now := 0, start; now < start+limit; number++ {
		traffic.PutMarker(s.header(), trial, number)
		s.sock.Send(&s.out[0], traffic.HeaderSize, sock.DontWait) // if it cannot be sent, the next one may be
		for next := now + markerEvery; now < next; now = clock.Now() {
			s.pause(next - now)
			s.look(trial, w)
			if s.over {
				return
			}
		}
	}
	s.sample.Doubt = traffic.MarkerLost
}

// Collect implements [traffic.Collector]. Without a capacity, or with nothing sent, the trial fails.
func (s *source) Collect() {
	s.counts.put(&s.sample)
	switch {
	case s.sample.Failure != "" || s.sample.Sent > 0:
		return
	case s.share > 0 && s.found == 0:
		s.sample.Failure = noAnswer
	case s.share > 0 && s.found < 0:
		s.sample.Failure = noRate
	default:
		s.sample.Failure = "no datagram was sent inside the window"
	}
	if s.refused != 0 {
		s.sample.Failure += ": " + s.refused.Error()
	}
}
