package lab

import (
	"context"
	"errors"
	"fmt"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/attack"
)

// Attacks say which attacks to make on a lab that stands, see [attack.Target].
type Attacks struct {
	Attacks    []attack.Attack `json:"attacks"`
	Exhaustive bool            `json:"exhaustive,omitempty"`
}

// An Attacked is what came of attacks on a lab that stands.
type Attacked struct {
	Lab       string               `json:"lab"` // "bridge/same-host/1"
	Stack     string               `json:"stack"`
	Placement experiment.Placement `json:"placement"`
	Pairs     int                  `json:"pairs"`
	// Unchanged is the claim that its kernel is as its plan says, before it is attacked.
	Unchanged measure.Proof   `json:"unchanged"`
	Matrix    measure.Matrix  `json:"matrix"` // who reaches whom, before it is attacked
	Results   []attack.Result `json:"results,omitempty"`
	NotTried  string          `json:"not_tried,omitempty"` // why it was not attacked
}

// attack attacks the lab. What was changed in it stays as it is, and is named.
func (o *owner) attack(ctx context.Context, a Attacks) (*Attacked, error) {
	l := o.lab.Lab
	out := &Attacked{
		Lab: l.ID, Stack: l.Named, Placement: l.Placement, Pairs: l.Pairs, Unchanged: proof.Unchanged(o.lab.Verify(ctx)),
	}
	out.Matrix = o.lab.Reach(ctx)
	target, err := o.lab.Target()
	if errors.Is(err, attack.ErrShared) {
		out.NotTried = err.Error()
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	target.Exhaustive = a.Exhaustive
	outcomes, err := attack.Run(ctx, target, a.Attacks)
	if err != nil {
		return nil, err
	}
	out.Results = target.Judge(a.Attacks, outcomes, nil)
	return out, nil
}

// Attack has its owner attack the lab.
func (l *Lab) Attack(ctx context.Context, a Attacks) (*Attacked, error) {
	c, err := l.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var out Attacked
	if err := c.Call(ctx, methodAttack, a, &out); err != nil {
		return nil, fmt.Errorf("lab %q: %w", l.Name, err)
	}
	return &out, nil
}
