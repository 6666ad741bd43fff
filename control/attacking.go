package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/runtime"
)

// errNotEntered says that nobody can attack from inside the hosts of a deployment.
var errNotEntered = errors.New("its hosts cannot be entered from here")

// remove removes a generation.
func (s *scheduler) remove(g *generation) {
	s.tell("remove", g.number)
	began := clock.Now()
	g.close()
	s.removing = time.Duration(clock.Now() - began)
}

// vacate removes the generation that was left standing to be attacked, if there is one.
func (s *scheduler) vacate() {
	if s.standing != nil {
		s.remove(s.standing)
		s.standing = nil
	}
}

// An onslaught is what came of attacks on a lab as it was measured.
type onslaught struct {
	got  Attacked
	err  error
	took time.Duration
}

// attack makes the attacks of the experiment on each lab once, but not on twins, and keeps what came of them. The labs
// of the last generation are attacked as they stand. Then they are removed, and their controls are built and attacked.
// Labs that the last generation did not have are built for the attacks.
func (s *scheduler) attack(ctx context.Context) error {
	defer s.vacate()
	if len(s.experiment.Proof.Attacks) == 0 {
		return nil
	}
	r := s.options.Resolved
	var labs []int
	for i := range r.Labs {
		if !r.Twin(i) {
			labs = append(labs, i)
		}
	}
	say := func(n int) func(string) {
		return func(what string) {
			if s.options.Observe != nil {
				s.options.Observe(Progress{Phase: "attack", Lab: n + 1, Labs: len(labs), ID: r.Labs[labs[n]].ID, What: what})
			}
		}
	}
	t := &Attacker{
		Parts: s.options.Parts, CPUs: len(s.configure.cpus), Attacks: s.experiment.Proof.Attacks, build: s.attackBuilt,
	}
	inside, outside := sides(t.Attacks)
	measured := map[int]onslaught{}
	number := 0
	if s.standing != nil {
		number = s.standing.number
	}
	for n, i := range labs {
		if ctx.Err() == nil && s.failure(i) == "" && s.attackable(i) {
			o := s.storm(ctx, s.standing.labs[i], say(n))
			if measured[i] = o; o.err == nil && o.got.Shared == nil { // the control of others, perhaps
				t.know(r.Labs[i].ID, inside, o.got)
				t.know(r.Labs[i].ID, outside, o.got)
			}
		}
	}
	s.vacate()
	for n, i := range labs {
		began := clock.Now()
		o, known := measured[i]
		var f Fate
		err := o.err
		_, standing := s.options.Deployment.(deploy.Standing)
		switch why := s.failure(i); {
		case why != "":
			f.NotTried = "it was not measured to the end: " + why
		case standing:
			f.NotTried = errNotEntered.Error()
		case known && (err == nil || o.got.Made()):
			f, err = t.Judge(ctx, r.Only(i), o.got, say(n))
			if o.err != nil {
				f.Failed = o.err.Error()
			}
		case !known:
			f, err = t.Attack(ctx, r.Only(i), say(n))
			o.took = time.Duration(clock.Now() - began)
		}
		if ctx.Err() != nil {
			return ctx.Err() // an interruption is no evidence
		}
		if err != nil {
			f.NotTried = err.Error()
		}
		x := f.record(r.Labs[i].ID)
		x.Took = o.took.Seconds()
		if known {
			x.Generation = number
		}
		s.records.attacks(x)
		s.say("lab %s: %s", x.Lab, saidOf(x))
	}
	return nil
}

// failure says why a lab was not measured to the end, "" if it was, or left earlier because enough is known.
func (s *scheduler) failure(lab int) string {
	for i, c := range s.cells {
		if c.Lab == lab && s.gone[i] != "" && !left(s.gone[i]) {
			return s.gone[i]
		}
	}
	return ""
}

// attackable says whether a lab of the last generation can be attacked as it stands. Workers that are processes of
// containers hold the ports that attacks need, and their containers end with them.
func (s *scheduler) attackable(lab int) bool {
	if s.standing == nil || s.standing.labs[lab] == nil || runtime.Inside(s.standing.labs[lab].Stack) {
		return false
	}
	_, ok := s.standing.labs[lab].stands.(deploy.Enterable)
	return ok
}

// storm attacks a lab as it was measured.
func (s *scheduler) storm(ctx context.Context, l *lab, say func(string)) (o onslaught) {
	began := clock.Now()
	live, err := s.configure.live(l)
	if err == nil {
		o.got, err = live.Attack(ctx, s.experiment.Proof.Attacks, false, Observe(say, ""))
	}
	o.err, o.took = err, time.Duration(clock.Now()-began)
	o.got.Proofs = only(s.records.log.Proofs, func(p measure.Proof) bool {
		return p.Lab == l.ID && p.Generation == l.generation.number
	})
	return o
}

// attackBuilt builds a lab of the run once more, or a control, attacks it, and removes it.
func (s *scheduler) attackBuilt(ctx context.Context, r *experiment.Resolved, attacks []attack.Attack, exhaustive bool,
	observe observer,
) (Attacked, error) {
	c := &configurator{
		resolved: r, deployment: s.options.Deployment, cpus: s.configure.cpus,
	}
	s.next++
	built, err := c.stand(ctx, s.next-1)
	remove := func(l *LiveLab) error {
		l.generation.close()
		return nil
	}
	return attackBuilt(ctx, built, err, remove, attacks, exhaustive, observe)
}

// saidOf says what came of attacks in a line.
func saidOf(x measure.Attacks) string {
	if x.NotTried != "" {
		return "not attacked: " + x.NotTried
	}
	claimed, held := 0, 0
	for _, a := range x.Attacks {
		if a.Claimed {
			claimed++
		}
		if a.Verdict == measure.AttackWithstood {
			held++
		}
	}
	return fmt.Sprintf("attacked in %.1f s: %d of %s withstood that it claims to withstand", x.Took, held,
		count(claimed, "attack"))
}
