package control

import (
	"context"
	"fmt"
	"sync"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
)

// counted is how many small datagrams a proof sends each way through a pair: more than what links see besides
// (neighbour solicitations, group reports) while a lab is proven.
const counted = 20

// paths are the ways that packets of a lab take according to its network, and what is known of how many have taken
// them.
type paths struct {
	network.Paths
	trips map[trip]int // number of the trip in Paths

	since   []host.Trace // of the hosts when the last proof was at its end; nil before
	carried []int64      // since then, by trip: packets that trials are known to have carried
}

// trip is one way between the ends of a pair.
type trip struct {
	pair   int
	family string
	back   bool
}

// newPaths asks the network. It is nil if that does not say which way its packets take.
func newPaths(l *lab, spec network.Lab, sources, sinks []network.Stop) *paths {
	tracer, _, ok := stack.PartOf[network.Tracer](l.Stack)
	if !ok {
		return nil
	}
	p := &paths{trips: map[trip]int{}}
	for pair := range l.at {
		for _, family := range l.families {
			for _, back := range []bool{false, true} {
				from, to, text := sources[pair], sinks[pair], "pair %d, %s"
				if back {
					from, to, text = to, from, "pair %d, %s, from sink to source"
				}
				p.trips[trip{pair, family, back}] = p.Len()
				p.Add(fmt.Sprintf(text, pair, family), tracer.Trace(network.Trip{Lab: spec, Family: family, From: from, To: to}))
			}
		}
	}
	return p
}

// none is that nothing was carried.
func (p *paths) none() []int64 { return make([]int64, p.Len()) }

// carry notes what a trial of a cell has carried. Of somebody else's programs nothing is known.
func (p *paths) carry(cell experiment.Cell, t workload.Trial) {
	w, ok := cell.Workload.(workload.Carrier)
	if !ok || p == nil || p.carried == nil || cell.Driver != nil {
		return
	}
	for i := range min(len(t.Sources), len(t.Sinks)) {
		there, back := w.Carried(t, i)
		p.carried[p.trips[trip{cell.First + i, cell.Family, false}]] += there
		p.carried[p.trips[trip{cell.First + i, cell.Family, true}]] += back
	}
}

// trace asks the underlay and all hosts of a lab what its paths want to know.
func (l *lab) trace(ctx context.Context, hops bool) ([]host.Trace, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit,
		fmt.Errorf("the hosts did not say within %v which way packets take", callLimit))
	defer cancel()
	questions := l.paths.Questions(hops)
	traces, errs := make([]host.Trace, len(questions)), make([]error, len(questions))
	var group sync.WaitGroup
	for i, q := range questions {
		h := l.underlay
		if i > 0 {
			h = l.hosts[i-1]
		}
		if h == nil {
			continue
		}
		group.Go(func() { traces[i], errs[i] = h.Trace(ctx, q) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return traces, nil
}

// claim is what a proof says of the paths.
const claim = "; its packets go to the neighbours that the plan has, and were counted at every device on their way"

// begin reads the counters before a proof sends packets, and compares them with what trials have carried since the last
// one.
func (l *lab) begin(ctx context.Context, fail func(string, ...any)) []host.Trace {
	before, err := l.trace(ctx, false)
	if err != nil {
		fail("%v", err)
		return nil
	}
	if l.paths.since != nil {
		if err := l.paths.Counted(l.paths.since, before, l.paths.carried); err != nil {
			fail("of the packets of the trials: %v", err)
		}
	}
	return before
}

// end compares what was counted since begin with what the proof has sent and seen arrive, and asks where packets go on.
func (l *lab) end(ctx context.Context, before []host.Trace, arrived []int64, fail func(string, ...any)) {
	l.paths.since, l.paths.carried = nil, nil
	if before == nil {
		return
	}
	after, err := l.trace(ctx, true)
	if err != nil {
		fail("%v", err)
		return
	}
	if err := l.paths.Next(after); err != nil {
		fail("%v", err)
	}
	if err := l.paths.Counted(before, after, arrived); err != nil {
		fail("%v", err)
	}
	l.paths.since, l.paths.carried = after, l.paths.none()
}
