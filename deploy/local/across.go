package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/netns"
)

// across returns the flow with which the filters of several hosts can be tried together, nil if there is none.
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

// change measures what changing a rule costs in a lab across hosts, where no host has both ends of a pair: on the
// source's host of the first pair, and then on the sink's, while the other one lets the proof packet pass. Hosts ask
// for no more than to be told to change; the packets are sent, and the first of them seen, from here. All hosts of this
// machine have one CLOCK_MONOTONIC, which says how long it was from the change on one host to the packet on the other.
// Hosts of other kernels have no clock in common: of them only how long a change itself took could be told.
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
