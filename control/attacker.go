package control

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
)

// An Attacker attacks labs, and judges each by its controls: the same lab without its filter, and without its
// encryption. It attacks each control once.
type Attacker struct {
	Parts      experiment.Parts
	CPUs       int
	Attacks    []attack.Attack
	Exhaustive bool // of labs, see [attack.Target]
	// Deploy returns where a lab is built.
	Deploy func() deploy.Deployment

	// build builds a lab, attacks and removes it: [Attack] on what Deploy returns, but in a run.
	build    func(context.Context, *experiment.Resolved, []attack.Attack, bool, observer) (Attacked, error)
	controls map[string]Attacked // by lab and attacks
}

// An observer is called when an attack begins.
type observer = func(a attack.Attack, family string)

// A Fate is what came of attacks on a lab, and on its controls.
type Fate struct {
	Attacked
	Results  []attack.Result
	NotTried string // why it was not attacked
	Failed   string // an error after attacks were made; they are judged all the same
	// Control names the lab without the filter, and NoControl says why it was not attacked. WireControl and NoWireControl
	// are the same of the lab without the encryption. All are "" if there is none.
	Control, NoControl         string
	WireControl, NoWireControl string
}

// Attack builds the only lab of an experiment, attacks it and its controls, and removes them. It calls say with what it
// does: "guise, ipv4". On an error the fate holds what is known.
func (t *Attacker) Attack(ctx context.Context, r *experiment.Resolved, say func(string)) (Fate, error) {
	say("being built")
	got, failed := t.built(ctx, r, t.Attacks, t.Exhaustive, say, "")
	if failed != nil && (ctx.Err() != nil || !got.Made()) {
		return Fate{Attacked: got}, failed
	}
	out, err := t.Judge(ctx, r, got, say)
	if failed != nil {
		out.Failed = failed.Error()
	}
	return out, err
}

// Judge attacks the controls of the only lab of an experiment, and says how the lab fares with what came of attacks on
// it. On an error the fate holds what is known.
func (t *Attacker) Judge(ctx context.Context, r *experiment.Resolved, got Attacked, say func(string)) (Fate, error) {
	out := Fate{Attacked: got}
	attacked := got.Outcomes != nil || got.Shared != nil || len(got.OnWire.List) > 0
	if len(got.Proofs) == 0 || !held(got.Proofs) && !attacked {
		out.NotTried = "its proofs fail"
		return out, nil
	}
	if got.Shared != nil && len(got.OnWire.List) == 0 {
		out.NotTried = got.Shared.Error()
		return out, nil
	}
	inside, outside := sides(t.Attacks)
	var without *attack.Control
	if got.Shared == nil && len(inside) > 0 {
		id, known, err := t.control(ctx, r, Unfiltered, inside, say, " without the filter")
		if out.Control = id; err != nil {
			out.NoControl = err.Error()
		} else if id != "" {
			without = &attack.Control{Claims: known.Target.Claims, Outcomes: known.Outcomes}
		}
	}
	var open *wire.Outcomes
	if len(got.OnWire.List) > 0 {
		id, known, err := t.control(ctx, r, Unprotected, outside, say, " without the encryption")
		if out.WireControl = id; err != nil {
			out.NoWireControl, open = err.Error(), new(wire.Outcomes)
		} else if id != "" {
			open = &known.OnWire
		}
	}
	out.Results = got.Judge(t.Attacks, without, open)
	return out, ctx.Err()
}

// built attacks a lab that is built for that, once more if a worker or a host did not answer in time: a run, too, has
// labs more than once. On is what follows the name of an attack when say gets it.
func (t *Attacker) built(ctx context.Context, r *experiment.Resolved, attacks []attack.Attack, exhaustive bool,
	say func(string), on string,
) (got Attacked, err error) {
	build := t.build
	if build == nil {
		build = func(ctx context.Context, r *experiment.Resolved, attacks []attack.Attack, exhaustive bool, o observer,
		) (Attacked, error) {
			return Attack(ctx, r, t.Deploy(), attacks, exhaustive, o)
		}
	}
	got, err = build(ctx, r, attacks, exhaustive, Observe(say, on))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && !got.Made() && len(got.Proofs) == 0 {
		say("built again, because: " + err.Error())
		return build(ctx, r, attacks, exhaustive, Observe(say, on))
	}
	return got, err
}

// control attacks the control of a lab, unless that was attacked before. It returns the control's name, "" if there is
// none.
func (t *Attacker) control(ctx context.Context, r *experiment.Resolved,
	of func(*experiment.Resolved, experiment.Parts, int) (*experiment.Resolved, error), attacks []attack.Attack,
	say func(string), on string,
) (id string, known Attacked, err error) {
	bare, err := of(r, t.Parts, t.CPUs)
	if bare == nil {
		return "", known, err
	}
	id = bare.Labs[0].ID
	key := fmt.Sprint(id, attacks)
	known, ok := t.controls[key]
	if ok {
		return id, known, nil
	}
	if known, err = t.built(ctx, bare, attacks, false, say, on); err == nil {
		t.know(id, attacks, known)
	}
	return id, known, err
}

// know notes what came of attacks on a lab that may be the control of others.
func (t *Attacker) know(id string, attacks []attack.Attack, got Attacked) {
	if t.controls == nil {
		t.controls = map[string]Attacked{}
	}
	t.controls[fmt.Sprint(id, attacks)] = got
}

// Observe returns an observer that says which attack begins, and on what.
func Observe(say func(string), on string) func(a attack.Attack, family string) {
	return func(a attack.Attack, family string) { say(fmt.Sprintf("%s%s, %s", a, on, family)) }
}

// record makes the record of a fate.
func (f Fate) record(lab string) measure.Attacks {
	return measure.Attacks{
		Lab: lab, Attacks: Records(f.Results), NotTried: f.NotTried, Failed: f.Failed, Control: f.Control,
		NoControl: f.NoControl, WireControl: f.WireControl, NoWireControl: f.NoWireControl,
	}
}

// Records returns what came of attacks as records have it, over both families.
func Records(results []attack.Result) (list []measure.Attack) {
	_, outside := sides(KnownAttacks())
	for _, r := range results {
		one := measure.Attack{
			Attack: string(r.Attack), Wire: slices.Contains(outside, r.Attack), Claimed: r.Claimed,
			Verdict: measure.AttackVerdict(r.Verdict), Why: r.Why, NotClaimed: r.NotClaimed,
		}
		for _, in := range r.Families {
			one.Families = append(one.Families, measure.AttackFamily{
				Family: in.Family, Verdict: measure.AttackVerdict(in.Verdict), Why: in.Why,
			})
		}
		one.Arrived, one.Sent = attack.Count(r.Lab)
		one.ControlArrived, one.ControlSent = attack.Count(r.Control)
		for _, o := range r.Lab {
			for _, hole := range o.Holes {
				one.Holes = append(one.Holes, o.Family+": "+hole)
			}
		}
		list = append(list, one)
	}
	return list
}
