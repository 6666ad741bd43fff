package control

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/worker"
)

// reachers is in how many labs it is tried at the same time who reaches whom, at most: most of it is waiting.
const reachers = 8

// acquainted is how many neighbours all containers may resolve for that at the same time. The kernel keeps each for 5 s
// at least, and has room for 1,024 in all network namespaces (gc_thresh3, net/ipv4/arp.c).
const acquainted = 512

// strangers is in how many labs it is tried at the same time if hosts cannot be entered. The network between containers
// is then somebody else's. It may judge the first packets of all connections one after the other, and those of more
// labs would only wait longer for each other.
const strangers = 4

// reachersIn returns in how many of these labs it can be tried at the same time.
func reachersIn(labs []*lab) int {
	reachers, most := reachers, 1
	if slices.ContainsFunc(labs, func(l *lab) bool { return !l.entered() }) {
		reachers = strangers
	}
	for _, l := range labs {
		containers := 2 * l.Pairs
		most = max(most, containers*(containers-1))
	}
	return min(reachers, max(1, acquainted/most))
}

// reach tries who reaches whom in the labs that are not in known, keeps what came of it, and notes there whether what
// they claim held. A lab in which it did not is not measured any more. It returns how many those are.
func (s *scheduler) reach(ctx context.Context, g *generation, when string, known map[*lab]bool) (failed int) {
	var labs []*lab
	for _, l := range g.labs {
		if _, tried := known[l]; l != nil && !tried && !s.unproven(g, l) {
			labs = append(labs, l)
		}
	}
	if len(labs) == 0 || s.experiment.Proof.Budget == 0 {
		return 0
	}
	began := clock.Now()
	together := reachersIn(labs)
	rounds := (len(labs) + together - 1) / together
	list := make([]measure.Matrix, len(labs))
	var group errgroup.Group
	group.SetLimit(together)
	for i, l := range labs {
		group.Go(func() error {
			how := proof.Survey{
				Budget: max(1, s.allowance(when)/time.Duration(rounds)), Seed: s.experiment.Design.Seed, Turn: s.turn(g, when),
			}
			if when == beforeBlocks && l.ways != nil {
				how.First = func(send func(mark []byte)) { l.ways.First(ctx, send) }
			}
			list[i] = l.reach(ctx, how)
			return nil
		})
	}
	_ = group.Wait()
	s.reached += time.Duration(clock.Now() - began)
	if ctx.Err() != nil {
		return 0 // an interruption is no evidence
	}
	for i, m := range list {
		l := labs[i]
		m.When = when
		s.records.matrix(m)
		claims := m.Proofs()
		for _, p := range claims {
			s.records.proof(p)
		}
		known[l] = held(claims)
		if wrong := broken(claims); wrong != nil {
			failed++
			s.drop(slices.Index(g.labs, l), fmt.Errorf("proof %s the blocks failed: %s", when, wrong.Detail))
		}
	}
	return failed
}

// turn counts the times that labs are tried, from 0, so that what there is no time for is not the same each time.
func (s *scheduler) turn(g *generation, when string) int {
	if when == beforeBlocks {
		return 2 * (g.number - firstGeneration)
	}
	return 2*(g.number-firstGeneration) + 1
}

// allowance is how long trying who reaches whom may take in all labs together, before the blocks of a generation or
// after: what is left of the run's share, for as many times as are expected.
func (s *scheduler) allowance(when string) time.Duration {
	all := s.experiment.Proof.Time(s.budget)
	done := len(s.records.log.Generations)
	expected := s.experiment.Design.Generations
	if done > 0 && s.measured > 0 {
		each := s.measured.Seconds() / float64(done)
		expected = max(expected, int(math.Ceil(s.budget.Seconds()/each)))
	}
	times := 2 * max(1, expected-done)
	if when == afterBlocks {
		times--
	}
	return max(0, all-s.reached) / time.Duration(times)
}

// entered says whether hosts of the lab can be entered.
func (l *lab) entered() bool {
	_, ok := l.stands.(deploy.Enterable)
	return ok
}

// reach tries who reaches whom in a lab: from here if its hosts can be entered, otherwise by its workers.
func (l *lab) reach(ctx context.Context, how proof.Survey) measure.Matrix {
	if open, ok := l.stands.(deploy.Enterable); ok {
		places := open.Places()
		how.Open = func(host int, namespace string) (*os.File, error) {
			if host >= len(places) {
				return nil, errors.New("the deployment has no such host")
			}
			return places[host].Namespace(namespace)
		}
	} else {
		workers := l.byContainer()
		how.Party = func(c proof.Container) proof.Party {
			return worker.Party(workers[c.Name].call, c.Name, c.Namespace)
		}
	}
	m := proof.Reach(ctx, l.described(l.mtu), how)
	m.Generation, m.Lab = l.generation.number, l.ID
	return m
}

// Reach tries all ways between the containers of the lab, to its hosts and to groups, and counts where packets arrive.
func (s *LiveLab) Reach(ctx context.Context) measure.Matrix {
	return s.lab.reach(ctx, proof.Survey{})
}
