package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/worker"
)

// A labWatch is what is known of a lab that is watched while it is measured.
type labWatch struct {
	by      deploy.Watched
	clean   []clean // when its watch began, and when each audit since then began that found nothing
	audits  int
	samples int            // of what must not pass
	doubts  []string       // of the audits: what may have changed without notice
	sampled map[string]int // how many times it was known to be clean before that try was made last
	again   bool           // a process of its was started anew, which is to be announced
	leaked  bool           // something was found: it is not measured any more
}

// clean is when a lab was known to be clean.
type clean struct {
	block int   // the next one then
	at    int64 // ns of CLOCK_MONOTONIC
}

// back is when a lab was known to be clean a number of audits ago: 1 is the last one.
func (w *labWatch) back(audits int) clean { return w.clean[max(0, len(w.clean)-max(1, audits))] }

// An auditCost is what an audit of a lab has taken.
type auditCost struct {
	lab    string
	hosts  time.Duration // on the host that took longest
	cpu    time.Duration // of all hosts
	whole  time.Duration // until its answer was there
	sample time.Duration // of what must not pass; 0: none
}

// An audited lab is what an audit has found.
type audited struct {
	changes, doubts []string
	back            int       // how many audits ago all that has changed was as before: 1 is the last one
	try             proof.Try // that was made
	arrived         int64
	began           int64 // ns of CLOCK_MONOTONIC
	cost            auditCost
	err             error
}

// watch begins to watch all labs of a generation, before they are proved.
func (s *scheduler) watch(ctx context.Context, g *generation) {
	s.eachLab(g, func(l *lab) bool { return l.watch == nil && !s.unproven(g, l) }, func(l *lab) { s.watchLab(ctx, l) })
}

// eachLab calls f for some labs that stand, a few at the same time.
func (s *scheduler) eachLab(g *generation, which func(*lab) bool, f func(*lab)) {
	var group sync.WaitGroup
	free := make(chan struct{}, builders)
	for _, l := range g.labs {
		if l == nil || l.stands == nil || !which(l) {
			continue
		}
		free <- struct{}{}
		group.Go(func() {
			f(l)
			<-free
		})
	}
	group.Wait()
}

// watchLab begins to watch a lab. One that cannot be watched is audited all the same: that fails, and the lab is lost.
func (s *scheduler) watchLab(ctx context.Context, l *lab) {
	by, ok := l.stands.(deploy.Watched)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	l.watch = &labWatch{by: by, clean: []clean{{s.blocks, clock.Now()}}, sampled: map[string]int{}}
	_ = by.Watch(ctx, false) // an audit of what is not watched is an error
}

// watchAgain watches labs that were built once more, and lets know what was started anew.
func (s *scheduler) watchAgain(ctx context.Context, g *generation) {
	if ctx.Err() != nil {
		return
	}
	s.watch(ctx, g)
	s.eachLab(g, func(l *lab) bool { return l.watch != nil && l.watch.again }, func(l *lab) {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		l.watch.again = false
		_ = l.watch.by.Watch(ctx, true) // what is unknown is found by the next audit
	})
}

// audit asks all labs what has changed since the last audit, and has samples made of what must not pass. A lab in which
// something has changed is not measured any more. A lab that cannot be asked is lost for the rest of its generation.
// Broken labs are about to be built once more. With all no lab is looked at in turns.
func (s *scheduler) audit(ctx context.Context, g *generation, broken map[int]string, all bool) error {
	found := make([]*audited, len(g.labs))
	s.eachLab(g, func(l *lab) bool {
		_, gone := broken[slices.Index(g.labs, l)]
		return l.watch != nil && !l.watch.leaked && !gone
	}, func(l *lab) { found[slices.Index(g.labs, l)] = l.audit(ctx, all) })
	if ctx.Err() != nil {
		return nil // an interruption is no evidence
	}
	now, some := clock.Now(), false
	for i, a := range found {
		if a == nil {
			continue
		}
		l := g.labs[i]
		if (a.err != nil || len(a.changes) > 0) && (l.stands.Died(ctx) != "" || l.workerDied()) {
			continue // what has died is mended, which says so
		}
		s.audits = append(s.audits, a.cost)
		for _, text := range a.doubts {
			if key := doubtKey(l.ID, text); !s.doubted[key] {
				s.doubted[key] = true
				s.records.warn(measure.Warning{Lab: l.ID, Text: text})
			}
			if !slices.Contains(l.watch.doubts, text) {
				l.watch.doubts = append(l.watch.doubts, text)
			}
		}
		if a.err != nil && a.arrived == 0 && len(a.changes) == 0 { // it cannot be told whether something has changed
			s.lose(g, i, a.err)
			continue
		}
		l.watch.audits++
		if list := s.refuted(l, a, now); list != nil {
			some, l.watch.leaked = true, true
			var said []string
			for _, p := range list {
				s.records.proof(p)
				said = append(said, p.Detail)
			}
			s.drop(i, fmt.Errorf("proof during the blocks failed: %s", strings.Join(said, "; ")))
			continue
		}
		l.watch.clean = append(l.watch.clean, clean{s.blocks, a.began})
	}
	if !some || s.baselines() == nil {
		return nil
	}
	// Without its baseline the run ends here. The proof after the blocks shows whether packets got through.
	return s.prove(ctx, g, afterBlocks)
}

// audit asks a lab.
func (l *lab) audit(ctx context.Context, all bool) *audited {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, fmt.Errorf("no answer within %v", callLimit))
	defer cancel()
	a := &audited{began: clock.Now(), cost: auditCost{lab: l.ID}}
	list, err := l.watch.by.Audit(ctx, all)
	a.cost.whole = time.Duration(clock.Now() - a.began)
	for _, h := range list {
		for _, c := range h.Changes {
			a.changes = append(a.changes, h.Host+": "+c)
		}
		a.back, a.doubts = max(a.back, h.Back), append(a.doubts, h.Doubts...)
		a.cost.hosts = max(a.cost.hosts, h.Took)
		a.cost.cpu += h.CPU
	}
	if err != nil {
		a.err = fmt.Errorf("the lab cannot be audited: %w", err)
		return a
	}
	if f, _ := filter.Of(l.Stack); f != nil {
		began := clock.Now()
		a.err = l.sample(ctx, a)
		if a.arrived > 0 { // the same try was made some audits ago, if ever
			a.back = max(a.back, len(l.watch.clean)-l.watch.sampled[a.try.Name])
		}
		l.watch.sampled[a.try.Name] = len(l.watch.clean)
		a.cost.sample = time.Duration(clock.Now() - began)
	}
	return a
}

// sample has datagrams sent that the filter must refuse, another kind each time, and counts them where they would
// arrive.
func (l *lab) sample(ctx context.Context, a *audited) error {
	t := l.described(l.mtu).Sample(l.watch.samples)
	l.watch.samples++
	var from, to *labWorker
	for _, w := range l.workers {
		for _, pair := range w.pairs {
			switch nameOf(w.side, pair) {
			case t.From.Container:
				from = w
			case t.To.Container:
				to = w
			}
		}
	}
	a.try = t
	if err := to.call(ctx, worker.SampleListen, t, nil); err != nil {
		return fmt.Errorf("%s: not tried: %w", t.Name, err)
	}
	err := from.call(ctx, worker.SampleSend, t, nil)
	if err == nil {
		time.Sleep(t.Patience.Wait())
	}
	if err := errors.Join(err, to.call(ctx, worker.SampleArrived, nil, &a.arrived)); err != nil {
		return fmt.Errorf("%s: not tried: %w", t.Name, err)
	}
	return nil
}

// most is how many changes a proof names.
const most = 5

// refuted returns records of what an audit has found: that what must not pass has arrived, and that something changed.
func (s *scheduler) refuted(l *lab, a *audited, now int64) (list []measure.Proof) {
	last := l.watch.back(a.back)
	since, until := float64(last.at-s.monitor.started)/1e9, float64(now-s.monitor.started)/1e9
	touched := []int{min(last.block, s.blocks-1), s.blocks - 1} // also what came after the last block
	blocks := fmt.Sprintf("block %d", touched[1])
	if touched[0] < touched[1] {
		blocks = fmt.Sprintf("blocks %d to %d", touched[0], touched[1])
	}
	add := func(p measure.Proof, said ...string) {
		p.Generation, p.Lab, p.When = l.generation.number, l.ID, duringBlocks
		p.Touched, p.Since, p.Until = touched, since, until
		p.Detail = fmt.Sprintf("%s (%s, between %.1f s and %.1f s of the run)", strings.Join(said, "; "), blocks, since,
			until)
		list = append(list, p)
	}
	if a.arrived > 0 {
		add(proof.SampledClaim(), fmt.Sprintf("the filter allows packets that it must refuse: %d datagrams of %s arrived",
			a.arrived, a.try.Name))
	}
	if len(a.changes) > 0 {
		said := slices.Clone(a.changes[:min(len(a.changes), most)])
		if n := len(a.changes) - most; n > 0 {
			said = append(said, fmt.Sprintf("and %d more", n))
		}
		add(proof.WatchedClaim(), said...)
	}
	return list
}

// watched audits all labs a last time in a generation, and records of each in which nothing was found that it was
// watched.
func (s *scheduler) watched(ctx context.Context, g *generation) error {
	if err := s.audit(ctx, g, nil, true); err != nil || ctx.Err() != nil {
		return err
	}
	for _, l := range g.labs {
		if l == nil || l.watch == nil || l.watch.leaked || l.watch.audits == 0 {
			continue
		}
		list := []measure.Proof{proof.WatchedClaim()}
		list[0].Untold = strings.Join(l.watch.doubts, "; ")
		if l.watch.samples > 0 {
			list = append(list, proof.SampledClaim())
		}
		for _, p := range list {
			p.Generation, p.Lab, p.When, p.OK = g.number, l.ID, duringBlocks, true
			s.records.proof(p)
		}
	}
	return nil
}

// workerDied says whether a worker of the lab has ended.
func (l *lab) workerDied() bool { return slices.ContainsFunc(l.workers, (*labWorker).dead) }

// auditFacts records what audits have taken: of each lab, the median in s.
func (s *scheduler) auditFacts() {
	byLab := map[string][]auditCost{}
	for _, c := range s.audits {
		byLab[c.lab] = append(byLab[c.lab], c)
	}
	if len(byLab) == 0 {
		return
	}
	facts := map[string]any{}
	for lab, list := range byLab {
		median := func(of func(auditCost) time.Duration) float64 {
			all := make([]time.Duration, len(list))
			for i, c := range list {
				all[i] = of(c)
			}
			slices.Sort(all)
			return all[len(all)/2].Seconds()
		}
		fact := map[string]any{
			"audits": len(list), "hosts": median(func(c auditCost) time.Duration { return c.hosts }),
			"whole": median(func(c auditCost) time.Duration { return c.whole }),
			"cpu":   median(func(c auditCost) time.Duration { return c.cpu }),
		}
		if sample := median(func(c auditCost) time.Duration { return c.sample }); sample > 0 {
			fact["sample"] = sample
		}
		facts[lab] = fact
	}
	s.records.fact("audit_time", facts)
}

// restarted notes that a process of the lab was started anew.
func (l *lab) restarted() {
	if l.watch != nil {
		l.watch.again = true
	}
}
