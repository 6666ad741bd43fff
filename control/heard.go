package control

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/measure"
)

// canarySize is the length in bytes of what is looked for between hosts: nobody else sends it by chance.
const canarySize = 16

// listen proves a lab. If its hosts can listen to each other, they do so meanwhile, and what they heard is recorded.
func (s *scheduler) listen(ctx context.Context, l *lab, when string) ([]measure.Proof, *fault) {
	t, ok := l.stands.(deploy.Tapped)
	if !ok {
		return l.prove(ctx, l.mtu)
	}
	mark := make([]byte, canarySize)
	_, _ = rand.Read(mark) // it never fails (crypto/rand)
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	listens, err := t.Tap(limited, mark)
	if err != nil && ctx.Err() == nil {
		s.doubt(l, fmt.Sprintf("its nodes could not listen to each other: %v; measure again if you need that", err))
	}
	if err != nil || !listens {
		return l.prove(ctx, l.mtu)
	}
	l.canary = mark
	list, f := l.prove(ctx, l.mtu)
	l.canary = nil
	limited, cancel = context.WithTimeout(ctx, callLimit)
	defer cancel()
	heard, err := t.Heard(limited)
	switch {
	case ctx.Err() != nil: // an interruption is no evidence
	case err != nil:
		s.doubt(l, fmt.Sprintf("what its nodes heard of each other could not be read: %v; measure again if you need it", err))
	default:
		s.recordHeard(l, when, heard, t.Encrypted())
	}
	return list, f
}

// recordHeard records what hosts have heard, and doubts that something encrypts it if it can be read.
func (s *scheduler) recordHeard(l *lab, when string, list []deploy.Heard, encrypted string) {
	r := measure.LabRecord{Generation: l.generation.number, Lab: l.ID, Metrics: map[string]float64{}}
	marked, frames := 0, 0
	for _, h := range list {
		for _, f := range h.Frames {
			r.Heard = append(r.Heard, measure.Heard{
				Host: h.Host, Machine: h.Machine, When: when, Device: f.Link, Wire: f.Wire.String(), Frames: f.Count,
				Marked: f.Marked,
			})
			marked, frames = marked+f.Marked, frames+f.Count
		}
	}
	if len(r.Heard) > 0 {
		s.records.lab(r)
	}
	if encrypted != "" && marked > 0 {
		s.doubt(l, fmt.Sprintf("packets between its pods should be encrypted (%s), but what pods sent can be read in %d of "+
			"%d frames between nodes: look at the settings of the cluster", encrypted, marked, frames))
	}
}
