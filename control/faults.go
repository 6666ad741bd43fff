package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/measure"
)

// finish keeps that a generation was measured to its end.
func (s *scheduler) finish(number, blocks int, measured, overhead time.Duration) error {
	record := measure.Generation{
		Generation: number, Blocks: blocks, Measured: measured.Seconds(), Overhead: overhead.Seconds(),
		Deaths: maps.Clone(s.died),
	}
	for i, l := range s.options.Resolved.Labs {
		reason, lost := s.lost[i]
		if s.miss(i, lost); !lost {
			continue
		}
		if record.Lost == nil {
			record.Lost = map[string]string{}
		}
		record.Lost[l.ID] = reason
		if s.missed[i] >= maxMissed {
			s.drop(i, fmt.Errorf("lost in %d consecutive generations, the last time because %s", maxMissed, reason))
		}
	}
	s.orphan()
	known := map[string]bool{}
	for _, g := range s.records.log.Generations {
		for id := range g.Dropped {
			known[id] = true
		}
	}
	for i, reason := range s.gone {
		if id := s.cells[i].ID; !left(reason) && !known[id] {
			if record.Dropped == nil {
				record.Dropped = map[string]string{}
			}
			record.Dropped[id] = reason
		}
	}
	s.records.generation(record)
	return s.records.flush(false)
}

// lookFor says what a person can do to find a cause.
func lookFor(at deploy.Deployment) string {
	if _, standing := at.(deploy.Standing); standing {
		return "see what the machines of its hosts log" // no lab can stand there alone
	}
	return "look for the cause with nettoll lab up"
}

// maxMissed is in how many generations one after another a lab may be lost. What ends it that often is the lab itself.
const maxMissed = 3

// miss counts a generation with or without a lab. One that was lost too often is not built any more, and stays lost.
func (s *scheduler) miss(lab int, lost bool) {
	switch {
	case lost:
		s.missed[lab]++
	case s.missed[lab] < maxMissed:
		s.missed[lab] = 0
	}
}

// lose ends a lab for the rest of a generation. The next one builds it anew.
func (s *scheduler) lose(g *generation, lab int, reason error) {
	s.lost[lab] = reason.Error()
	s.records.warn(measure.Warning{
		Lab: s.options.Resolved.Labs[lab].ID,
		Text: fmt.Sprintf("lost in generation %d, rebuilt in the next one (if that is often so, %s): %v", g.number,
			lookFor(s.options.Deployment), reason),
	})
	if l := g.labs[lab]; l != nil {
		l.close()
		g.labs[lab] = nil
	}
}

// mend restarts workers that died or hang, once each in a generation; a lab whose worker does it again is lost for its
// rest.
func (s *scheduler) mend(ctx context.Context, g *generation, f *fault) error {
	if f.visit >= 0 {
		for _, i := range s.workload.visits[f.visit].Cells {
			s.records.trial(measure.Trial{Generation: g.number, Block: s.blocks - 1, Cell: s.cells[i].ID, Failed: f.reason})
		}
	}
	for _, w := range f.workers {
		lab := slices.Index(g.labs, w.lab)
		if lab < 0 {
			continue // an earlier one of these has cost the lab
		}
		s.deaths[w.name()]++
		s.died[w.lab.ID]++
		if s.deaths[w.name()] == 1 {
			err := w.lab.restart(ctx, w)
			if err == nil {
				w.lab.restarted()
				s.records.warn(measure.Warning{
					Lab: w.lab.ID, Text: fmt.Sprintf("%s: it was started again (if that is often so, %s)", f.reason,
						lookFor(s.options.Deployment)),
				})
				continue
			}
			f = &fault{visit: -1, reason: fmt.Sprintf("%s; starting it again failed: %v", f.reason, err)}
		}
		s.lose(g, lab, f)
	}
	return nil
}
