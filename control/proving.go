package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
)

// When labs are proven.
const (
	beforeBlocks = "before"
	duringBlocks = "during"
	afterBlocks  = "after"
)

// proves counts the time that f takes as time spent proving.
func (s *scheduler) proves(f func() error) error {
	began := clock.Now()
	err := f()
	s.proving += time.Duration(clock.Now() - began)
	return err
}

// unproven says whether nothing is proved of a lab.
func (s *scheduler) unproven(g *generation, l *lab) bool {
	return s.options.Unproven != nil && s.options.Unproven(slices.Index(g.labs, l))
}

// prove probes every lab. A lab whose allowed pairs cannot talk is not measured, unless a program of its died: then it
// is built once more.
func (s *scheduler) prove(ctx context.Context, g *generation, when string) error {
	labs, sound := 0, 0
	reached := map[*lab]bool{}
	if when == beforeBlocks { // the counters of the path begin after it
		s.reach(ctx, g, when, reached)
	}
	first := s.listenAll(ctx, g, when)
	for i, l := range g.labs {
		if l == nil || s.unproven(g, l) {
			continue
		}
		p, f := first[i].list, first[i].silent
		if f != nil && ctx.Err() == nil {
			if err := s.mend(ctx, g, f); err != nil {
				return err
			}
			if g.labs[i] == nil {
				continue
			}
			p, _ = s.listen(ctx, l, when)
		}
		if reason := l.perished(ctx, held(p)); reason != "" { // no evidence against the stack
			if when == afterBlocks {
				s.endedLate(l, reason)
				continue
			}
			if err := s.rebuild(ctx, g, map[int]string{i: reason}); err != nil {
				return err
			}
			if g.labs[i] == nil {
				continue
			}
			p, _ = s.listen(ctx, l, when)
		}
		same, gone := s.unchanged(ctx, l, when)
		if gone == nil && held(p) {
			if reason := l.perished(ctx, same.OK); reason != "" { // meanwhile
				s.endedLate(l, reason)
				continue
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil // an interruption is no evidence
		case gone == nil:
			p = append(p, same)
		case !slices.ContainsFunc(p, measure.Proof.Leaks): // nor is this, but what was seen before it is
			s.lose(g, i, gone)
			continue
		}
		if err := s.keepFrames(l, when, p); err != nil {
			return err
		}
		labs++
		for _, claim := range p {
			claim.When = when
			s.records.proof(claim)
		}
		if b := broken(p); b != nil {
			s.drop(i, fmt.Errorf("proof %s the blocks failed: %s", when, b.Detail))
			continue
		}
		if holds, tried := reached[l]; holds || !tried {
			sound++
		}
	}
	sound -= s.reach(ctx, g, when, reached)
	s.sayProved(g, when, sound, labs)
	return s.baselines()
}

// endedLate says that a program of a lab has ended by itself after the last block.
func (s *scheduler) endedLate(l *lab, reason string) {
	s.records.warn(measure.Warning{
		Lab: l.ID, Text: reason + "\nit was after the last block, and the lab is not proven again: measure once more " +
			"to have its proof",
	})
}

// heardOf is what came of the proof of a lab: its claims, and workers that did not answer.
type heardOf struct {
	list   []measure.Proof
	silent *fault
}

// listenAll proves all labs, a few at the same time, since most of it is waiting. Labs whose hosts listen to each other
// are proved one by one: they share machines.
func (s *scheduler) listenAll(ctx context.Context, g *generation, when string) []heardOf {
	out := make([]heardOf, len(g.labs))
	one := func(l *lab) {
		i := slices.Index(g.labs, l)
		out[i].list, out[i].silent = s.listen(ctx, l, when)
	}
	alone := func(l *lab) bool {
		_, ok := l.stands.(deploy.Tapped)
		return ok
	}
	s.eachLab(g, func(l *lab) bool { return !s.unproven(g, l) && !alone(l) }, one)
	for _, l := range g.labs {
		if l != nil && !s.unproven(g, l) && alone(l) {
			one(l)
		}
	}
	return out
}

// unchanged proves that the kernel is as the plan says. Who builds a lab verifies that, so it is asked after blocks. If
// others have ended a part of the lab, it returns what.
func (s *scheduler) unchanged(ctx context.Context, l *lab, when string) (_ measure.Proof, gone error) {
	var err error
	if when == afterBlocks {
		ctx, cancel := context.WithTimeout(ctx, patience(s.options.Resolved))
		defer cancel()
		err = l.stands.Verify(ctx)
	}
	if lost, ok := errors.AsType[*deploy.LostError](err); ok {
		return measure.Proof{}, lost
	}
	found := proof.Planned
	if d, ok := s.options.Deployment.(deploy.Standing); ok {
		found = d.AsBuilt()
	}
	p := proof.Unchanged(found, err)
	p.Generation, p.Lab = l.generation.number, l.ID
	return p, nil
}
