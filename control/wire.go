package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
	"github.com/nettoll/nettoll/stack"
)

// KnownAttacks lists all attacks, in the order in which they are made: those from inside a lab, then those from its
// underlay.
func KnownAttacks() []attack.Attack { return experiment.Attacks() }

// DescribeAttack explains one of them.
func DescribeAttack(a attack.Attack) attack.Description {
	if slices.Contains(wire.All(), a) {
		return wire.Describe(a)
	}
	return attack.Describe(a)
}

// sides separates attacks from inside from those from the underlay.
func sides(attacks []attack.Attack) (inside, outside []attack.Attack) {
	for _, a := range attacks {
		if slices.Contains(wire.All(), a) {
			outside = append(outside, a)
		} else {
			inside = append(inside, a)
		}
	}
	return inside, outside
}

// Wire returns the lab as one that can be attacked from its underlay.
func (s *LiveLab) Wire() wire.Target {
	l := s.lab
	t := wire.Target{
		Lab:  l.described(s.MTU),
		Open: func(host int, namespace string) (*os.File, error) { return s.Hosts[host].Namespace(namespace) },
	}
	composed, err := network.Compose(l.spec.Net, l.Stack)
	if err != nil { // it stands: it was composed before
		return t
	}
	g := composed.Guards()
	t.Guards = wire.Guards{Hidden: composed.Hidden(), Authentic: g.Authentic, Once: g.Once, Exclusive: g.Exclusive}
	t.Claims = g.Claims
	t.Ignored, t.Hellos, t.Offers, t.Settled, t.Rekey = g.Ignored, g.Hellos, g.Offers, g.Settled, s.rekey
	return t
}

// rekey has all hosts renew their keys.
func (s *LiveLab) rekey(ctx context.Context) error {
	const most = 8 // as many as no encryption needs
	hosts := s.Hosts[:s.Lab.Hosts]
	for stage := range most {
		mores := make([]bool, len(hosts))
		group, ctx := errgroup.WithContext(ctx)
		for i, h := range hosts {
			group.Go(func() (err error) {
				k, ok := h.Place.(interface {
					Rekey(ctx context.Context, stage int) (more bool, err error)
				})
				if !ok {
					return fmt.Errorf("renew the keys of %s: %w", h.Name(), errors.ErrUnsupported)
				}
				mores[i], err = k.Rekey(ctx, stage)
				return err
			})
		}
		if err := group.Wait(); err != nil || !slices.Contains(mores, true) {
			return err
		}
	}
	return fmt.Errorf("keys are not renewed after %d stages", most)
}

// Judge says how a lab fares with each attack, from what came of them on it, on the same lab without its filter, and on
// that without its encryption. Nil: there is none.
func (a Attacked) Judge(attacks []attack.Attack, unfiltered *attack.Control, open *wire.Outcomes) []attack.Result {
	inside, outside := sides(attacks)
	var list []attack.Result
	if a.Shared == nil {
		list = a.Target.Judge(inside, a.Outcomes, unfiltered)
	} else {
		for _, one := range inside {
			list = append(list, attack.Result{Attack: one, Verdict: attack.NotTried, Why: a.Shared.Error()})
		}
	}
	return append(list, a.Wire.Judge(outside, a.OnWire, open)...)
}

// Unprotected returns the experiment whose only lab is the same as that of another experiment, but without what
// protects packets between hosts: what arrives there shows that an attack works. It is nil if nothing does. CPUs are
// those of [experiment.Resolve].
func Unprotected(r *experiment.Resolved, parts experiment.Parts, cpus int) (*experiment.Resolved, error) {
	l := r.Labs[0]
	protects := func(c stack.Choice) bool {
		carrier, ok := c.Part.Value.(network.Carrier)
		if !ok || l.Hosts < 2 {
			return false
		}
		const roomy = 9000 // an MTU that leaves enough
		lab, err := network.Compose(network.NewLab(l.Hosts, network.MinMTU), nil)
		if err != nil {
			return false
		}
		lab.Spans[0].MTU = roomy
		span, err := carrier.Carry(lab, c.Params)
		return err == nil && span.Protects()
	}
	return without(r, parts, cpus, protects, "its encryption")
}
