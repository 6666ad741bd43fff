package tinc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/tinc"
	"github.com/nettoll/nettoll/network/networktest"
)

// With a short interval both programs renew their keys, over the connection that they have.
func TestRekey(t *testing.T) {
	looks := 0
	encryptiontest.Rekey(t, tinc.Encryption{}, map[string]string{"rekey": "1s"}, func(b *networktest.Bed) {
		for i, m := range b.Hosts {
			logs, err := m.Kernel.Logs()
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(logs["tinc"], "Got KEY_CHANGED from "); n < looks-1 {
				t.Errorf("host %d was told of new keys %d times, want %d", i+1, n, looks-1)
			}
			if n := strings.Count(logs["tinc"], ") activated"); n != 1 {
				t.Errorf("host %d has made %d connections", i+1, n)
			}
		}
		looks++
	})
}

// With an hour nobody waits for it.
func TestRekeySlow(t *testing.T) {
	if _, err := (tinc.Daemon{}).Rekey(t.Context(), nil, 0); !errors.Is(err, errors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "rekey=2s") {
		t.Errorf("got %v", err)
	}
}
