package control

import (
	"context"
	"fmt"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
)

// newWays asks the network which way its packets take. It is nil if that does not say. Of an attacher only the ends of
// that way are known, if containers have a second interface.
func newWays(l *lab, site *network.Site) *proof.Ways {
	tracer, params, ok := stack.PartOf[network.Tracer](l.Stack)
	attacher, ends := tracer.(network.Attacher)
	if !ok || ends && attacher.Attached(params) == "" {
		return nil
	}
	stop := func(s network.Spot) network.Stop {
		h := l.spec.Net.Hosts[s.Host]
		return network.Stop{Host: h, Container: h.Containers[s.Container], Endpoint: site.Endpoints[s.Host][s.Container]}
	}
	paths := &network.Paths{Large: l.large, Cut: len(site.Lab.Spans) > 1 || site.Lab.Underlay != network.Medium{}}
	trips, ports := []proof.Trip(nil), []string(nil)
	for pair, ends := range l.spec.Pairs {
		for _, family := range l.talking() {
			for _, back := range []bool{false, true} {
				from, to, text := stop(ends.Source), stop(ends.Sink), "pair %d, %s"
				if back {
					from, to, text = to, from, "pair %d, %s, from sink to source"
				}
				trips = append(trips, proof.Trip{Pair: pair, Family: family, Back: back})
				way := tracer.Trace(network.Trip{Lab: site.Lab, Family: family, From: from, To: to})
				paths.Add(fmt.Sprintf(text, pair, family), way)
				ports = append(ports, way.Ports...)
			}
		}
	}
	var wire proof.Wire
	evidence := network.NewEvidence(site.Lab, ports)
	if evidence != nil {
		wire = evidence
	}
	ways := proof.NewWays(paths, wire, trips, func(
		ctx context.Context, hops bool, mark []byte, keep bool,
	) ([]host.Trace, error) {
		questions := paths.Questions(hops)
		if mark != nil {
			questions[0].Tap = evidence.Tap(mark, keep && l.keeps)
		}
		traces, err := l.trace(ctx, questions)
		if err == nil && traces[0].Capture != nil {
			l.capture = traces[0].Capture
		}
		return traces, err
	})
	if ends {
		ways.Text = "packets pass the second interface of containers, and do not leave them by the first one, " +
			network.Inner
	}
	return ways
}

// sendsLarge says whether a workload may give the kernel segments that are larger than a packet: streams, segmented
// datagrams, and whatever programs send.
func sendsLarge(c experiment.Cell) bool {
	_, stream := c.Params["congestion"]
	return stream || c.Params["mode"] == "segmented" || c.Driver != nil || c.Workload.Describe().Programs != nil
}

// carry notes what a trial of a cell has carried.
func (l *lab) carry(cell experiment.Cell, t workload.Trial) {
	w, ok := cell.Workload.(workload.Carrier)
	if !ok || l.ways == nil {
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
		fmt.Errorf("the hosts did not report the path of packets within %v", callLimit))
	defer cancel()
	return l.stands.Trace(ctx, questions)
}
