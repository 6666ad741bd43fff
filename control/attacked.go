package control

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
	"github.com/nettoll/nettoll/stack"
)

// An UnprovenError says that a lab does not do what it claims.
type UnprovenError struct {
	Lab    string
	Proofs []measure.Proof // of all its claims
}

func (e *UnprovenError) Error() string {
	b := broken(e.Proofs)
	return fmt.Sprintf("lab %s: proof failed: %s: %s", e.Lab, b.Claim, b.Detail)
}

// An Attacked is what came of proving and attacking a lab.
type Attacked struct {
	Proofs   []measure.Proof // of its claims, as a run makes them
	Matrix   measure.Matrix  // who reaches whom, all of it
	Rights   string          // of its containers, "" if those have no processes of their own
	Target   attack.Target
	Outcomes []attack.Outcome
	// Shared is why nobody in it can be attacked from inside: [attack.ErrShared]; nil if that is not so.
	Shared error
	// Wire is the lab as its underlay sees it, and OnWire what came of attacks from there.
	Wire   wire.Target
	OnWire wire.Outcomes
}

// Made says whether attacks were made, or what came of them is known for another reason.
func (a Attacked) Made() bool {
	return len(a.Outcomes) > 0 || len(a.OnWire.List) > 0
}

// Attack builds the only lab of an experiment as a run does, proves its claims, makes attacks on it, and removes it. If
// a claim does not hold the lab is not attacked. What came of attacks until an error is returned with it. Exhaustive
// and observe are those of [attack.Target]. The deployment is closed.
func Attack(ctx context.Context, r *experiment.Resolved, at deploy.Deployment, attacks []attack.Attack, exhaustive bool,
	observe func(a attack.Attack, family string),
) (Attacked, error) {
	s, err := Stand(ctx, r, at)
	return attackBuilt(ctx, s, err, (*LiveLab).Close, attacks, exhaustive, observe)
}

// attackBuilt attacks what was built for that, unless building failed, and removes it.
func attackBuilt(ctx context.Context, s *LiveLab, failed error, remove func(*LiveLab) error, attacks []attack.Attack,
	exhaustive bool, observe func(a attack.Attack, family string),
) (out Attacked, err error) {
	if unproven, ok := errors.AsType[*UnprovenError](failed); ok {
		out.Proofs = unproven.Proofs
		return out, nil
	}
	if failed != nil {
		return out, failed
	}
	defer func() { err = errors.Join(err, remove(s)) }()
	reached := s.Reach(ctx) // the attacks leave it confused
	out, err = s.Attack(ctx, attacks, exhaustive, observe)
	out.Matrix, out.Proofs = reached, slices.Concat(s.Proofs, reached.Proofs())
	return out, err
}

// Attack makes attacks on the lab as it stands. What came of them until an error is returned with it.
func (s *LiveLab) Attack(ctx context.Context, attacks []attack.Attack, exhaustive bool,
	observe func(a attack.Attack, family string),
) (out Attacked, err error) {
	out.Rights = s.Rights()
	inside, outside := sides(attacks)
	if len(inside) > 0 {
		out.Target, err = s.Target()
		switch {
		case errors.Is(err, attack.ErrShared):
			out.Shared, err = err, nil
		case err != nil:
			return out, err
		default:
			out.Target.Exhaustive, out.Target.Observe = exhaustive, observe
			out.Outcomes, err = attack.Run(ctx, out.Target, inside)
		}
	}
	out.Wire = s.Wire()
	if len(outside) > 0 && ctx.Err() == nil {
		var failed error
		out.Wire.Observe = observe
		out.OnWire, failed = wire.Run(ctx, out.Wire, outside)
		err = errors.Join(err, failed)
	}
	return out, err
}

// Unfiltered returns the experiment whose only lab is the same as that of another experiment, but without the filter:
// what arrives there shows that an attack works. It is nil if the lab has no filter. CPUs are those of
// [experiment.Resolve].
func Unfiltered(r *experiment.Resolved, parts experiment.Parts, cpus int) (*experiment.Resolved, error) {
	return without(r, parts, cpus, func(c stack.Choice) bool {
		_, ok := c.Part.Value.(filter.Filter)
		return ok
	}, "its filter")
}

// without returns the experiment whose only lab is the same as that of another experiment, but without some parts. It
// is nil if the lab has none of them.
func without(r *experiment.Resolved, parts experiment.Parts, cpus int, drop func(stack.Choice) bool, what string,
) (*experiment.Resolved, error) {
	l := r.Labs[0]
	want := l.Stack
	for _, c := range l.Stack {
		if !drop(c) {
			continue
		}
		none, err := parts.Kinds.Choose(c.Kind.Describe().Name, stack.None, nil)
		if err != nil {
			return nil, err
		}
		want = want.With(none)
	}
	if want.Equal(l.Stack) {
		return nil, nil
	}
	e := r.Experiment
	e.Baseline, e.Stacks, e.Only, e.Plants = experiment.Base(parts).Baseline, nil, nil, nil
	e.Factors = experiment.Factors{
		Placements: []experiment.Placement{l.Placement}, Pairs: []int{l.Pairs},
		Families: r.Experiment.Factors.Families, Affinities: []string{l.Affinity},
	}
	if l.Hosts > 1 {
		e.Factors.Hosts = []int{l.Hosts}
	}
	e.Stacks = []experiment.Stack{{Parts: want, Placements: []experiment.Placement{l.Placement}, Settings: l.Settings}}
	all, err := experiment.Resolve(e, parts, cpus)
	if err != nil {
		return nil, err
	}
	for i, other := range all.Labs {
		if other.Stack.Equal(want) && other.Settings == l.Settings {
			return all.Only(i), nil
		}
	}
	return nil, fmt.Errorf("lab %s: it cannot be built without %s", l.ID, what)
}
