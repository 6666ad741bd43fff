package wireguard_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/wireguard"
	driver "github.com/nettoll/nettoll/internal/linux/wireguard"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/networktest"
)

// The embedded device makes a handshake when it is asked to, which the other end sees, too.
func TestRekey(t *testing.T) {
	testnet.NotInGuest(t, "the process does there what it does on the machine")
	var last time.Time
	encryptiontest.Rekey(t, wireguard.Encryption{}, map[string]string{"impl": "embedded"}, func(b *networktest.Bed) {
		state, err := driver.Get(b.Hosts[0].Kernel.Running("wireguard").Control())
		if err != nil {
			t.Fatal(err)
		}
		now := state.Peers[0].Handshake
		if !now.After(last) {
			t.Errorf("host 1 has seen its last handshake at %v, and one at %v before", now, last)
		}
		last = now
	})
}

// The kernel's device cannot be asked, and that is said.
func TestRekeyKernel(t *testing.T) {
	b := raise(t, "kernel")
	if _, err := b.Hosts[1].Stack.Rekey(t.Context(), b.Hosts[1].Kernel, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}
