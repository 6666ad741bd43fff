package openvpn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/openvpn"
	"github.com/nettoll/nettoll/network/networktest"
)

// With a short interval the process renews its keys, and says that it does not begin anew.
func TestRekey(t *testing.T) {
	looks := 0
	encryptiontest.Rekey(t, openvpn.Encryption{}, map[string]string{"rekey": "1s"}, func(b *networktest.Bed) {
		logs, err := b.Hosts[0].Kernel.Logs()
		if err != nil {
			t.Fatal(err)
		}
		said := logs["ovpn2"]
		// both ends count the seconds, and either begins
		theirs, err := b.Hosts[1].Kernel.Logs()
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(said+theirs["ovpn1"], "TLS: soft reset sec="); n < looks {
			t.Errorf("both ends together have renewed keys %d times, want %d", n, looks)
		}
		if n := strings.Count(said, "Initialization Sequence Completed"); n != 1 {
			t.Errorf("the process has begun %d times", n)
		}
		looks++
	})
}

// With an hour nobody waits for it.
func TestRekeySlow(t *testing.T) {
	if _, err := (openvpn.Tunnel{}).Rekey(t.Context(), nil, 0); !errors.Is(err, errors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "rekey=2s") {
		t.Errorf("got %v", err)
	}
}
