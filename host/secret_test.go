package host

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Hosts of one lab derive the same keys. Keys differ between purposes and between labs.
func TestDerive(t *testing.T) {
	key := func(s Secret, purpose string) []byte {
		k := &Kernel{opened: &opened{}}
		k.Entrust(s)
		b, err := k.Derive(purpose)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one, other := NewSecret(), NewSecret()
	again, err := SecretOf(one.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	first := key(one, "a")
	if !bytes.Equal(first, key(again, "a")) || len(first) != secretLength {
		t.Errorf("two hosts of one lab derive %d and other bytes", len(first))
	}
	if bytes.Equal(first, key(one, "b")) || bytes.Equal(first, key(other, "a")) || bytes.Equal(first, one.Reveal()) {
		t.Error("another purpose or another lab has the same key")
	}
	if _, err := (&Kernel{opened: &opened{}}).Derive("a"); err == nil {
		t.Error("a host without a secret derives a key")
	}
	if _, err := SecretOf([]byte("short")); err == nil {
		t.Error("5 bytes are taken as a secret")
	}
}

// No verb shows a secret, and no encoder encodes it.
func TestSecretIsNotShown(t *testing.T) {
	s := NewSecret()
	holder := struct {
		S Secret
		C KernelConfig
		k *Kernel
	}{S: s, C: KernelConfig{Secret: s}, k: &Kernel{opened: &opened{secret: s}}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		text := fmt.Sprintf(verb, s) + fmt.Sprintf(verb, holder) + fmt.Sprintf(verb, &s)
		bare := strings.NewReplacer(" ", "", "0x", "", ",", "").Replace(text)
		if strings.Contains(bare, hex.EncodeToString(s.Reveal()[:4])) ||
			strings.Contains(text, fmt.Sprintf("%d %d %d %d", s.Reveal()[0], s.Reveal()[1], s.Reveal()[2], s.Reveal()[3])) {
			t.Errorf("%s shows it", verb)
		}
	}
	if text, err := json.Marshal(struct{ S Secret }{s}); err == nil {
		t.Errorf("it is encoded: %d bytes", len(text))
	}
}
