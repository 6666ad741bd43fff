package encryptiontest

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
)

// Rekey builds a lab of two hosts, has their keys renewed, and wants packets to pass with the new ones. It calls seen
// before and after, for another witness than the step that the keys are new. Then frames are repeated after keys were
// renewed, and none passes while they are to be renewed: nothing may be delivered twice, or be sent in plain.
func Rekey(t *testing.T, one encryption.Encryption, given map[string]string, seen func(b *networktest.Bed)) {
	t.Helper()
	lab, err := network.Compose(networktest.Lab(2, 1), carriertest.Choose(t, encryption.Kind{one}, given))
	if err != nil {
		t.Fatal(err)
	}
	b := Raise(t, lab)
	if err := b.Exchange("ipv4", size); err != nil {
		t.Fatal(err)
	}
	seen(b)
	if err := renew(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := b.Exchange("ipv4", size); err != nil {
		t.Errorf("with new keys: %v", err)
	}
	seen(b)
	attacks := []attack.Attack{wire.Replay, wire.Silence}
	target := Target(b)
	target.Rekey = func(ctx context.Context) error { return renew(ctx, b) }
	out, err := wire.Run(t.Context(), target, attacks)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range target.Judge(attacks, out, nil) {
		if r.Verdict != attack.Withstood || r.Why != "" {
			t.Errorf("%s while keys are renewed: %s, %s %+v", r.Attack, r.Verdict, r.Why, r.Lab)
		}
	}
}

// renew has the keys of all hosts renewed, stage after stage.
func renew(ctx context.Context, b *networktest.Bed) error {
	for stage := 0; ; stage++ {
		mores := make([]bool, len(b.Hosts))
		var group errgroup.Group
		for i, m := range b.Hosts {
			group.Go(func() (err error) {
				mores[i], err = m.Stack.Rekey(ctx, m.Kernel, stage)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return fmt.Errorf("stage %d: %w", stage, err)
		}
		if !mores[0] && !mores[1] {
			return nil
		}
	}
}
