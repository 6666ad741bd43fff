package encryptiontest

import (
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
)

// Rekey builds a lab of two hosts, has their keys renewed, and wants packets to pass with the new ones. It calls seen
// before and after, for another witness than the step that the keys are new.
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
	renew(t, b)
	if err := b.Exchange("ipv4", size); err != nil {
		t.Errorf("with new keys: %v", err)
	}
	seen(b)
}

// renew has the keys of all hosts renewed, stage after stage.
func renew(t *testing.T, b *networktest.Bed) {
	t.Helper()
	for stage := 0; ; stage++ {
		mores := make([]bool, len(b.Hosts))
		var group errgroup.Group
		for i, m := range b.Hosts {
			group.Go(func() (err error) {
				mores[i], err = m.Stack.Rekey(t.Context(), m.Kernel, stage)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatalf("stage %d: %v", stage, err)
		}
		if !mores[0] && !mores[1] {
			return
		}
	}
}
