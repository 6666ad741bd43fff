package control

import (
	"context"
	"fmt"
	"sync"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
)

// newWays asks the network which way its packets take. It is nil if that does not say.
func newWays(l *lab, spec network.Lab, sources, sinks []network.Stop) *proof.Ways {
	tracer, _, ok := stack.PartOf[network.Tracer](l.Stack)
	if !ok {
		return nil
	}
	paths, trips := &network.Paths{}, []proof.Trip(nil)
	for pair := range l.at {
		for _, family := range l.families {
			for _, back := range []bool{false, true} {
				from, to, text := sources[pair], sinks[pair], "pair %d, %s"
				if back {
					from, to, text = to, from, "pair %d, %s, from sink to source"
				}
				trips = append(trips, proof.Trip{Pair: pair, Family: family, Back: back})
				paths.Add(fmt.Sprintf(text, pair, family), tracer.Trace(network.Trip{
					Lab: spec, Family: family, From: from, To: to,
				}))
			}
		}
	}
	return proof.NewWays(paths, trips, func(ctx context.Context, hops bool) ([]host.Trace, error) {
		return l.trace(ctx, paths.Questions(hops))
	})
}

// carry notes what a trial of a cell has carried. Of somebody else's programs nothing is known.
func (l *lab) carry(cell experiment.Cell, t workload.Trial) {
	w, ok := cell.Workload.(workload.Carrier)
	if !ok || l.ways == nil || cell.Driver != nil {
		return
	}
	for i := range min(len(t.Sources), len(t.Sinks)) {
		there, back := w.Carried(t, i)
		l.ways.Carry(cell.First+i, cell.Family, there, back)
	}
}

// trace asks the underlay and all hosts of a lab, a question each.
func (l *lab) trace(ctx context.Context, questions []host.Question) ([]host.Trace, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit,
		fmt.Errorf("the hosts did not say within %v which way packets take", callLimit))
	defer cancel()
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
