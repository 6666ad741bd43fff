package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/netns"
)

// across returns the flow for testing the filters of several hosts together; nil if there is none.
func across(plans []host.Plan) *filter.ProofPacket {
	for _, p := range plans {
		for _, s := range p.Steps {
			if f, ok := s.(filter.Step); ok && f.Listed().Across != nil {
				return f.Listed().Across
			}
		}
	}
	return nil
}

// change measures the cost of changing a rule in a lab across hosts, in which no host has both ends of a pair. It
// changes the rules on the source's host of the first pair and then on the sink's, while the other host lets the proof
// packet pass. The hosts only change rules; this process sends the packets and sees the first one arrive. All hosts of
// this machine share one CLOCK_MONOTONIC, which gives the time from the change on one host to the packet on the other.
// Hosts with other kernels would have no common clock: for them, only the duration of the change itself would be known.
func (l *lab) change(ctx context.Context) error {
	if l.across == nil {
		return nil
	}
	source, sink := l.spec.Pairs[0].Source.Host, l.spec.Pairs[0].Sink.Host
	ends := filter.Ends{
		Source: func(f func() error) error { return l.hosts[source].inside(l.across.SourceNS, f) },
		Sink:   func(f func() error) error { return l.hosts[sink].inside(l.across.SinkNS, f) },
	}
	for _, turn := range [][2]int{{source, sink}, {sink, source}} {
		here, there := l.hosts[turn[0]], l.hosts[turn[1]]
		if _, err := there.UpdateRule(ctx, true); err != nil {
			return err
		}
		took, err := filter.Try(ctx, *l.across, ends, func(allow bool) (host.RuleUpdate, error) {
			return here.UpdateRule(ctx, allow)
		})
		_, undo := there.UpdateRule(ctx, false)
		if err := errors.Join(err, undo); err != nil {
			return fmt.Errorf("on %s: %w", here.Name(), err)
		}
		report := &l.reports[turn[0]]
		if report.Metrics == nil {
			report.Metrics = map[string]float64{}
		}
		report.Metrics[filter.UpdateTime], report.Metrics[filter.EffectTime] = took.Update.Seconds(), took.Effect.Seconds()
	}
	return nil
}

// inside calls a function in a network namespace of the host.
func (h *Host) inside(namespace string, f func() error) error {
	ns, err := h.Namespace(namespace)
	if err != nil {
		return err
	}
	defer ns.Close()
	return netns.Do(int(ns.Fd()), f)
}
