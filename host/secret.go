package host

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// secretLength is the length of a secret in bytes: that of the hash for deriving keys (RFC 5869, section 2.2).
const secretLength = sha256.Size

// A Secret is shared by the hosts of one lab. Keys of the lab's parts are derived from it, so that plans contain no
// keys. It is made when the lab is built, stays in memory, and is sent to the agents over their connections. It does
// not print or encode itself. The zero value is no secret.
type Secret struct{ bytes *[secretLength]byte }

// NewSecret returns a random secret.
func NewSecret() Secret {
	s := Secret{new([secretLength]byte)}
	_, _ = rand.Read(s.bytes[:]) // it never fails
	return s
}

// SecretOf returns the secret with the bytes that [Secret.Reveal] returned.
func SecretOf(b []byte) (Secret, error) {
	if len(b) != secretLength {
		return Secret{}, fmt.Errorf("invalid secret of %d bytes (valid: %d)", len(b), secretLength)
	}
	return Secret{(*[secretLength]byte)(append([]byte(nil), b...))}, nil
}

// Reveal returns the bytes, for the connection to an agent; nil for the zero value.
func (s Secret) Reveal() []byte {
	if s.bytes == nil {
		return nil
	}
	return s.bytes[:]
}

// Format writes the type and never the bytes, for any verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "a secret") }

// MarshalJSON always returns an error: a secret must not get into records, journals or plans.
func (Secret) MarshalJSON() ([]byte, error) {
	return nil, errors.New("a secret of a lab must not be written anywhere")
}

// Entrust gives the kernel the secret of its lab.
func (k *Kernel) Entrust(s Secret) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.secret = s
}

// Derive returns 32 bytes for one purpose, such as "wireguard of host 1", by HKDF-SHA256 (RFC 5869). All hosts of the
// lab derive the same bytes; other labs derive others. It returns an error if the host has no secret.
func (k *Kernel) Derive(purpose string) ([]byte, error) {
	k.mu.Lock()
	secret := k.secret
	k.mu.Unlock()
	if secret.bytes == nil {
		return nil, fmt.Errorf("derive a key (%s): this host was not given the secret of its lab", purpose)
	}
	key, err := hkdf.Key(sha256.New, secret.bytes[:], nil, "nettoll "+purpose, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive a key (%s): %w", purpose, err)
	}
	return key, nil
}
