package proof

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/measure"
)

// A Player plays tries where the containers are. [Here] plays them in its own process; control has its workers do so.
// A try that could not be made is no evidence of anything.
type Player interface {
	// Open has the receiver of a try answer the sender from now on, until Close.
	Open(ctx context.Context, t Try) error
	// Try sends what the tries say, all at the same time, and returns what was seen of each.
	Try(ctx context.Context, list []Try) []Seen
	// Close ends everything that was opened.
	Close(ctx context.Context) error
}

// Seen is the result of a try.
type Seen struct {
	Answered bool   `json:"answered"`
	More     int    `json:"more,omitempty"`      // how many of [Try.More] were answered, each counted once
	Detail   string `json:"detail,omitempty"`    // what was seen otherwise
	NotTried string `json:"not_tried,omitempty"` // why it could not be made
}

// delayed is the longest time that TCP delays an acknowledgement (TCP_DELACK_MAX, include/net/tcp.h). Connections that
// wait between trials send theirs during a proof, so that devices count more than it has sent.
const delayed = 200 * time.Millisecond

// Play tries claims one after another and returns a record of each, without place and time. A claim fails if none of
// its tries could be made. If devices have counted too many packets, and nothing else is wrong, all is tried once more:
// a device that sends packets twice does so again.
func Play(ctx context.Context, claims []Claim, with Player) []measure.Proof {
	list, again := play(ctx, claims, with)
	if again {
		select {
		case <-ctx.Done():
		case <-time.After(delayed):
			list, _ = play(ctx, claims, with)
		}
	}
	return list
}

// play tries claims; again: all that failed is that too many packets were counted.
func play(ctx context.Context, claims []Claim, with Player) (list []measure.Proof, again bool) {
	records := make([]record, len(claims))
	for i, c := range claims {
		records[i] = newRecord(c)
		if c.Ways != nil {
			if err := c.Ways.begin(ctx); err != nil {
				records[i].fail(err.Error())
			}
		}
	}
	arrived, sent := map[Trip]int{}, map[Trip]int{}
	var mark []byte
	var ways *Ways
	for _, c := range claims {
		if c.Ways != nil {
			ways, mark = c.Ways, c.Ways.mark
		}
	}
	list = make([]measure.Proof, len(claims))
	failures, excesses := 0, 0
	for i, c := range claims {
		r := &records[i]
		switch {
		case c.Ways != nil:
			mark = nil
			if excess := r.compare(ctx, c.Ways, arrived, sent); excess != nil {
				r.fail(excess.Error())
				excesses++
			}
		case c.Wire != nil:
			r.listen(c.Wire, c.Wire.wrong)
		case c.Hidden != nil:
			r.listen(c.Hidden, c.Hidden.leak)
			if c.Hidden.wrong == nil && c.Hidden.leak == nil {
				r.overhear(ctx, c, with)
			}
		case mark == nil:
			r.play(ctx, c, with, c.Mark, arrived, sent)
		default:
			r.play(ctx, c, with, mark, arrived, sent)
		}
	}
	for i := range records {
		r := &records[i]
		if r.unanswered != nil && ways != nil && ctx.Err() == nil {
			if lost := ways.lost(ctx, with, *r.unanswered); lost != "" {
				r.Detail += "; " + lost
			}
		}
		list[i] = r.result()
		failures += r.failures
	}
	return list, excesses > 0 && failures == excesses
}

// A record is that of a claim that is being tried.
type record struct {
	measure.Proof
	failures   int
	unanswered *Try // that the detail is about
}

func newRecord(c Claim) record {
	return record{Proof: measure.Proof{
		Name: c.Name, Claim: c.Text, Expected: c.Expected, Tried: map[string]int{}, Seen: map[string]int{},
	}}
}

func (r *record) fail(detail string) {
	if r.failures++; r.failures == 1 {
		r.Detail = detail
	}
}

// play makes the tries of a claim, and notes how many packets have gone each way, and how many were sent at most.
func (r *record) play(ctx context.Context, c Claim, with Player, mark []byte, arrived, sent map[Trip]int) {
	for _, together := range c.turns() {
		var open []Try
		for _, t := range together {
			if t.Answered {
				t.Mark = mark
			}
			if err := with.Open(ctx, t); err != nil {
				r.fail(fmt.Sprintf("%s: not tried: %v", t.Name, err))
				continue
			}
			open = append(open, t)
			for _, back := range []bool{false, true} {
				sent[Trip{t.Pair, t.Family, back}] += tries + t.More
			}
		}
		for i, seen := range with.Try(ctx, open) {
			t := open[i]
			if seen.NotTried != "" {
				r.fail(fmt.Sprintf("%s: not tried: %s", t.Name, seen.NotTried))
				continue
			}
			r.Tried[t.Family]++
			if t.Answered && !seen.Answered && r.failures == 0 {
				r.unanswered = &t
			}
			if detail := t.wrong(seen); detail == "" {
				r.Seen[t.Family]++
			} else if c.Failure != "" {
				r.fail(c.Failure + ": " + detail)
			} else {
				r.fail(t.Name + ": " + detail)
			}
			if t.Answered && seen.Answered {
				arrived[Trip{t.Pair, t.Family, false}], arrived[Trip{t.Pair, t.Family, true}] = seen.More, seen.More
			}
		}
	}
	if err := with.Close(ctx); err != nil {
		r.fail(err.Error())
	}
}

// turns are the tries that are made together: those that must not be answered, all of which wait for an answer. The
// others, of many packets, would be in each other's way.
func (c Claim) turns() (list [][]Try) {
	var silent []Try
	for _, t := range c.Tries {
		if t.Answered {
			list = append(list, []Try{t})
		} else {
			silent = append(silent, t)
		}
	}
	if len(silent) > 0 {
		list = append(list, silent)
	}
	return list
}

// wrong says what was seen instead of what is expected, "" if that was.
func (t Try) wrong(seen Seen) string {
	switch {
	case t.Answered && !seen.Answered:
		return seen.Detail
	case t.Answered && t.More > 0 && seen.More == 0:
		return fmt.Sprintf("none of %d small datagrams was answered", t.More)
	case !t.Answered && seen.Answered:
		return fmt.Sprintf("%s answers %s, which must not reach it", t.To.Public, t.From.Local)
	}
	return ""
}

// compare compares the ways of what has arrived with the plan, and returns what was counted beyond what was sent.
func (r *record) compare(ctx context.Context, w *Ways, arrived, sent map[Trip]int) (excess error) {
	tried, wrong, excess := w.end(ctx, arrived, sent)
	if tried {
		for t := range w.trips {
			r.Tried[t.Family]++
		}
	}
	if wrong != nil {
		r.fail(wrong.Error())
	}
	if r.failures == 0 && excess == nil {
		r.Seen = r.Tried // which trip a counter of several has missed cannot be told
	}
	return excess
}

// listen says what was heard on the wire while packets took their ways.
func (r *record) listen(w *Ways, found error) {
	for t := range w.trips {
		if w.heard {
			r.Tried[t.Family]++
		}
	}
	if found != nil {
		r.fail(found.Error())
		return
	}
	r.Seen = r.Tried
}

// overhear has the tries of a claim sent that nothing can be read. What a filter or a network refuses is not answered,
// and may be on the wire all the same. The claim fails if no try of a form could be made.
func (r *record) overhear(ctx context.Context, c Claim, with Player) {
	leak := c.Hidden.overhear(ctx, func(mark []byte) {
		var open []Try
		made, why := map[Form]bool{}, map[Form]string{}
		for _, t := range c.Tries {
			t.Mark = mark
			if err := with.Open(ctx, t); err != nil {
				why[t.Form] = err.Error()
				continue
			}
			open = append(open, t)
		}
		for i, seen := range with.Try(ctx, open) {
			if form := open[i].Form; seen.NotTried == "" {
				made[form] = true
			} else {
				why[form] = seen.NotTried
			}
		}
		for _, form := range slices.Sorted(maps.Keys(why)) {
			if !made[form] {
				r.fail(fmt.Sprintf("%s: not tried: %s", form, why[form]))
			}
		}
		if err := with.Close(ctx); err != nil {
			r.fail(err.Error())
		}
	})
	if leak != nil {
		r.fail(leak.Error())
	}
}

func (r *record) result() measure.Proof {
	if len(r.Tried) == 0 && r.failures == 0 {
		r.fail("not tried")
	}
	if r.OK = r.failures == 0; r.failures > 1 {
		r.Detail += fmt.Sprintf(" (and %d more)", r.failures-1)
	}
	return r.Proof
}

// Here plays tries in this process.
type Here struct {
	// In calls a function in the network namespace of an end.
	In      func(e End, f func() error) error
	mirrors []mirror      // that answer tries
	samples []sock.Socket // receivers of samples
}

// Open implements [Player].
func (h *Here) Open(_ context.Context, t Try) error {
	return h.In(t.To, func() error {
		m, err := answerer(t)
		if err == nil {
			h.mirrors = append(h.mirrors, m)
		}
		return err
	})
}

// A mirror answers until it is closed.
type mirror interface{ Close() }

// answerer opens what answers a try.
func answerer(t Try) (mirror, error) {
	if t.Form == Stream {
		return newListener(t.To.Local)
	}
	return newMirror(t.To.Local, t.From.Public, t.Form == Fragments)
}

// Try implements [Player].
func (h *Here) Try(_ context.Context, list []Try) []Seen {
	seen := make([]Seen, len(list))
	var all sync.WaitGroup
	for i, t := range list {
		try, err := h.prepare(t)
		if err != nil {
			seen[i].NotTried = err.Error()
			continue
		}
		all.Go(func() { seen[i] = try() })
	}
	all.Wait()
	return seen
}

// prepare opens what a try needs.
func (h *Here) prepare(t Try) (try func() Seen, err error) {
	err = h.In(t.From, func() (err error) {
		if !t.Answered {
			try, err = refusal(t.From.Local, t.To.Public, t.Patience)
			return err
		}
		if t.Form == Stream {
			try, err = call(t.From.Local, t.To.Public, t.Mark, t.Patience)
			return err
		}
		passage, err := passage(t)
		try = func() Seen {
			answered, err := passage()
			if err != nil {
				return Seen{Detail: err.Error()}
			}
			return Seen{Answered: true, More: answered}
		}
		return err
	})
	return try, err
}

// Close implements [Player].
func (h *Here) Close(context.Context) error {
	for _, m := range h.mirrors {
		m.Close()
	}
	h.mirrors = nil
	return nil
}
