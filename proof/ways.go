package proof

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
)

// A Plan says which way the packets of trips take, and compares it with the counters of hosts. Trips are counted from
// 0. network.Paths is one.
type Plan interface {
	// Next compares the neighbours to which packets go with the plan.
	Next(traces []host.Trace) error
	// Counted compares the counters of two traces. Missing names those that counted less than each trip has carried, and
	// excess those that counted more than was sent for all trips; sent is nil if that is not known.
	Counted(before, after []host.Trace, carried, sent []int64) (missing, excess error)
	// Beyond names the counters that counted more, in that time, than the containers sent to them.
	Beyond(before, after []host.Trace, lasted time.Duration) error
	// Short names the first counter on the way of a trip that counted less than was sent for it, and what it counted. It
	// is "" if all counted as much, or if the source itself sent less.
	Short(before, after []host.Trace, trip int, sent int64) string
}

// A Trip is one way between the ends of a pair.
type Trip struct {
	Pair   int
	Family string
	Back   bool // from sink to source
}

// A Tracer asks all hosts of a lab the questions of its plan; with hops, also for next hops. With a mark it has a tap
// look for that on what is between hosts, up to the next trace, and keep the frames for a capture if that is wanted.
type Tracer func(ctx context.Context, hops bool, mark []byte, keep bool) ([]host.Trace, error)

// A Wire says what packets are on their way between hosts, and compares it with what a tap has heard.
// network.Evidence is one.
type Wire interface {
	// Text is a sentence without its full stop. Hidden is another one, that nothing can be read, "" if it can.
	Text() string
	Hidden() string
	// Heard says what differs, and what can be read that is hidden.
	Heard(frames []host.Frames) (wrong, leak error)
	// Layers says what each layer leaves of the MTU: "underlay 1500, vxlan −50".
	Layers() string
}

// Ways holds the ways of packets according to the plan of a lab, and how many packets are known to have taken them.
type Ways struct {
	// Text is what the claim of the path says if the plan does not know every device on the way, as a sentence without its
	// full stop; "" if it does.
	Text string

	plan  Plan
	wire  Wire // nil: nothing is between hosts
	mark  []byte
	wrong error        // what the last proof heard that differs, or why it did not
	leak  error        // what it could read, likewise
	first error        // what could be read in the first packets between hosts, or why nobody listened
	heard bool         // it heard something
	trips map[Trip]int // their numbers in the plan
	trace Tracer

	before  []host.Trace // of the hosts when the proof that goes on began
	since   []host.Trace // of the hosts when the last proof was at its end; nil before
	ended   time.Time    // when that was
	carried []int64      // since then, by trip: packets that trials are known to have carried
}

// NewWays takes the trips of a plan in its order. Wire may be nil.
func NewWays(plan Plan, wire Wire, trips []Trip, trace Tracer) *Ways {
	w := &Ways{plan: plan, wire: wire, trips: map[Trip]int{}, trace: trace}
	for i, t := range trips {
		w.trips[t] = i
	}
	return w
}

// Carry notes packets that were carried between the ends of a pair since the last proof.
func (w *Ways) Carry(pair int, family string, there, back int64) {
	if w.carried == nil {
		return
	}
	w.carried[w.trips[Trip{pair, family, false}]] += there
	w.carried[w.trips[Trip{pair, family, true}]] += back
}

// markSize is the length in bytes of what is looked for on the wire: nobody else sends it by chance.
const markSize = 16

// Forget is for a lab that was built anew: its counters are gone.
func (w *Ways) Forget() { w.since, w.carried = nil, nil }

// begin reads the counters before a proof sends packets, and compares them with what trials have carried since the last
// one.
func (w *Ways) begin(ctx context.Context) error {
	var err error
	w.notHeard(errors.New("not tried"))
	w.mark = nil
	if w.wire != nil {
		w.mark = newMark()
	}
	for again := false; ; again = true {
		if w.before, err = w.trace(ctx, false, w.mark, true); err != nil {
			w.before = nil
			return fmt.Errorf("not tried: %w", err)
		}
		if w.since == nil {
			return nil
		}
		missing, _ := w.plan.Counted(w.since, w.before, w.carried, nil)
		err = errors.Join(missing, w.plan.Beyond(w.since, w.before, time.Since(w.ended)))
		if err == nil {
			return nil
		}
		if again || ctx.Err() != nil {
			return fmt.Errorf("packets of the trials: %w", err)
		}
		time.Sleep(late) // hosts are not read at the same moment, and acknowledgements of the last trial may pass meanwhile
	}
}

// late is longer than the kernel delays an acknowledgement (TCP_DELACK_MAX, include/net/tcp.h: 200 ms).
const late = 250 * time.Millisecond

// end compares what was counted since begin with what the proof has sent and seen arrive, and asks where packets go on.
// Nothing was tried where a host did not say what it has counted.
func (w *Ways) end(ctx context.Context, arrived, sent map[Trip]int) (tried bool, wrong, excess error) {
	before := w.before
	w.before = nil
	w.Forget()
	if before == nil {
		return false, nil, nil
	}
	after, err := w.trace(ctx, true, nil, false)
	if err != nil {
		w.notHeard(fmt.Errorf("not tried: %w", err))
		return false, fmt.Errorf("not tried: %w", err), nil
	}
	if w.wire != nil {
		w.wrong, w.leak = w.wire.Heard(framesOf(after))
		w.leak, w.first = errors.Join(w.first, w.leak), nil
		w.heard = true
	}
	w.since, w.ended, w.carried = after, time.Now(), make([]int64, len(w.trips))
	missing, excess := w.plan.Counted(before, after, w.numbered(arrived), w.numbered(sent))
	return true, errors.Join(w.plan.Next(after), missing), excess
}

// First has the first packets between hosts sent, those with which an encryption may agree on keys. If nothing can be
// read between hosts, it looks for a mark that send puts into them, and the next proof says if it was there.
func (w *Ways) First(ctx context.Context, send func(mark []byte)) {
	sent := false
	once := func(mark []byte) {
		send(mark)
		sent = true
	}
	if w.wire != nil && w.wire.Hidden() != "" {
		if err := w.overhear(ctx, once); err != nil {
			w.first = fmt.Errorf("first packets: %w", err)
		}
	}
	if !sent {
		send(nil)
	}
}

// overhear has packets sent of which nobody knows how many devices count, and returns what of them can be read.
func (w *Ways) overhear(ctx context.Context, send func(mark []byte)) (leak error) {
	mark := newMark()
	if _, err := w.trace(ctx, false, mark, false); err != nil {
		return fmt.Errorf("not tried: %w", err)
	}
	send(mark)
	after, err := w.trace(ctx, false, nil, false)
	if err != nil {
		return fmt.Errorf("not tried: %w", err)
	}
	_, leak = w.wire.Heard(framesOf(after))
	return leak
}

func newMark() []byte {
	mark := make([]byte, markSize)
	_, _ = rand.Read(mark) // it never fails (crypto/rand)
	return mark
}

func framesOf(traces []host.Trace) (list []host.Frames) {
	for _, t := range traces {
		list = append(list, t.Frames...)
	}
	return list
}

// again is how often a try that got no answer is made again: more packets than devices see besides in that time.
const again = 4

// lost makes a try again that got no answer, and says which device on the way was the first to count less than was
// sent, and what the layers between hosts are. It is "" if neither is known. All claims have been tried.
func (w *Ways) lost(ctx context.Context, with Player, t Try) string {
	var known []string
	if short := w.short(ctx, with, t); short != "" {
		known = append(known, short)
	}
	if w.wire != nil {
		known = append(known, "planned: "+w.wire.Layers())
	}
	return strings.Join(known, "; ")
}

func (w *Ways) short(ctx context.Context, with Player, t Try) string {
	if t.Patience.Lossy {
		return "" // some are lost anyway
	}
	before, err := w.trace(ctx, false, nil, false)
	if err != nil || with.Open(ctx, t) != nil {
		return ""
	}
	for range again {
		with.Try(ctx, []Try{t})
	}
	if with.Close(ctx) != nil {
		return ""
	}
	after, err := w.trace(ctx, false, nil, false)
	if err != nil {
		return ""
	}
	for _, back := range []bool{false, true} {
		if short := w.plan.Short(before, after, w.trips[Trip{t.Pair, t.Family, back}], again*tries); short != "" {
			return short
		}
	}
	return ""
}

func (w *Ways) notHeard(why error) { w.wrong, w.leak, w.heard = why, why, false }

func (w *Ways) numbered(packets map[Trip]int) []int64 {
	list := make([]int64, len(w.trips))
	for trip, n := range packets {
		list[w.trips[trip]] = int64(n)
	}
	return list
}
