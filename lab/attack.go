package lab

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/attack"
)

// Attacks select the attacks to make on a live lab, see [attack.Target].
type Attacks struct {
	Attacks    []attack.Attack `json:"attacks"`
	Exhaustive bool            `json:"exhaustive,omitempty"`
}

// An Attacked is the result of attacks on a live lab.
type Attacked struct {
	Lab       string               `json:"lab"` // "bridge/same-host/1"
	Stack     string               `json:"stack"`
	Placement experiment.Placement `json:"placement"`
	Pairs     int                  `json:"pairs"`
	Rights    string               `json:"rights,omitempty"` // of its containers, see [control.Attacked]
	// Unchanged is the claim that the lab's kernel state matches its plan before the attack.
	Unchanged measure.Proof   `json:"unchanged"`
	Proofs    []measure.Proof `json:"proofs"` // those of a run, before it is attacked
	Matrix    measure.Matrix  `json:"matrix"` // who reaches whom, before it is attacked
	Results   []attack.Result `json:"results,omitempty"`
	NotTried  string          `json:"not_tried,omitempty"` // why it was not attacked
	Failed    string          `json:"failed,omitempty"`    // an error after attacks were made
	// The controls are those of [control.Fate].
	Control       string `json:"control,omitempty"`
	NoControl     string `json:"no_control,omitempty"`
	WireControl   string `json:"wire_control,omitempty"`
	NoWireControl string `json:"no_wire_control,omitempty"`
}

// attack attacks the lab and, built for that, its controls. Changes that the attacks make in the lab remain, and the
// result names them.
func (o *owner) attack(ctx context.Context, a Attacks) (*Attacked, error) {
	say := func(what string) { o.doing.Store(what) }
	defer say("")
	say("proofs")
	l := o.lab.Lab
	out := &Attacked{
		Lab: l.ID, Stack: l.Named, Placement: l.Placement, Pairs: l.Pairs,
		Unchanged: proof.Unchanged(proof.Planned, o.lab.Verify(ctx)),
	}
	out.Proofs = o.lab.Prove(ctx)
	say("who reaches whom")
	out.Matrix = o.lab.Reach(ctx)
	got, err := o.lab.Attack(ctx, a.Attacks, a.Exhaustive, control.Observe(say, ""))
	got.Proofs = o.lab.Proofs
	switch {
	case err != nil && (ctx.Err() != nil || !got.Made()):
		return nil, err
	case err != nil: // what was made is judged
		out.Failed = err.Error()
	}
	fate, err := o.judge(ctx, got, a.Attacks, say)
	if err != nil {
		return nil, err
	}
	out.Rights, out.Results, out.NotTried = got.Rights, fate.Results, fate.NotTried
	out.Control, out.NoControl, out.WireControl, out.NoWireControl = fate.Control, fate.NoControl, fate.WireControl,
		fate.NoWireControl
	return out, nil
}

// Attack makes the lab's owner attack it. Meanwhile it calls say with what the owner does.
func (l *Lab) Attack(ctx context.Context, a Attacks, say func(string)) (*Attacked, error) {
	c, err := l.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { l.follow(watching, say) })
	var out Attacked
	err = c.Call(ctx, methodAttack, a, &out)
	stop()
	if watch.Wait(); err != nil {
		return nil, fmt.Errorf("lab %q: %w", l.Name, err)
	}
	return &out, nil
}

// lookEvery is the time between two questions about what an owner does.
const lookEvery = 200 * time.Millisecond

// follow calls say with what attacks the lab, until ctx ends.
func (l *Lab) follow(ctx context.Context, say func(string)) {
	c, err := l.dial() // one connection answers one call at a time
	if err != nil {
		return // the attack itself reports what is wrong
	}
	defer c.Close()
	for {
		var what string
		if err := c.Call(ctx, methodDoing, none{}, &what); err != nil {
			return
		}
		if what != "" {
			say(what)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return
		}
	}
}
