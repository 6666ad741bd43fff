package wireguard

import (
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
)

// A Public is a public key. Its text is that of wg(8).
type Public [32]byte

// String returns the key in base64.
func (p Public) String() string { return base64.StdEncoding.EncodeToString(p[:]) }

// A Private is a private key. It never prints its bytes.
type Private struct{ key *[32]byte }

// NewPrivate makes a key from 32 random bytes by clamping them (RFC 7748, section 5).
func NewPrivate(random []byte) (Private, error) {
	if len(random) != 32 {
		return Private{}, fmt.Errorf("make a private key of %d bytes (valid: 32)", len(random))
	}
	k := [32]byte(random)
	k[0] &= 248
	k[31] = k[31]&127 | 64
	return Private{&k}, nil
}

// Format writes the type and never the bytes, for any verb.
func (Private) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "a private key") }

// MarshalJSON always returns an error.
func (Private) MarshalJSON() ([]byte, error) {
	return nil, errors.New("a private key must not be written anywhere")
}

// Public returns the public key.
func (p Private) Public() (Public, error) {
	if p.key == nil {
		return Public{}, errors.New("derive a public key: no private key was given")
	}
	key, err := ecdh.X25519().NewPrivateKey(p.key[:])
	if err != nil {
		return Public{}, fmt.Errorf("derive a public key: %w", err)
	}
	return Public(key.PublicKey().Bytes()), nil
}

// A Config is the configuration of a device.
type Config struct {
	Key   Private
	Port  uint16 // UDP port on which it listens
	Peers []Peer
}

// A Peer is another device.
type Peer struct {
	Key      Public
	Endpoint netip.AddrPort
	// Allowed are the addresses to which packets are sent, and from which they are accepted.
	Allowed []netip.Prefix
}

// A State is the state that a device reports.
type State struct {
	Key   Public
	Port  uint16
	Mark  int
	Peers []PeerState
}

// A PeerState is the state of a peer that a device reports.
type PeerState struct {
	Peer
	Preshared bool          // there is a preshared key
	Keepalive time.Duration // 0: off
	Handshake time.Time     // when the last one was completed
}

// Last returns when the last handshake with a peer was completed; the zero time if there was none.
func (s State) Last(with Public) time.Time {
	for _, p := range s.Peers {
		if p.Key == with {
			return p.Handshake
		}
	}
	return time.Time{}
}

// Compare lists the differences between a device and its configuration. It shows only public keys.
func Compare(want Config, got State) ([]linux.Difference, error) {
	own, err := want.Key.Public()
	if err != nil {
		return nil, err
	}
	var list []linux.Difference
	differ := func(what, want, got string) {
		if want != got {
			list = append(list, linux.Difference{What: what, Want: want, Got: got})
		}
	}
	differ("public key", own.String(), got.Key.String())
	differ("port", fmt.Sprint(want.Port), fmt.Sprint(got.Port))
	differ("mark", "0", fmt.Sprint(got.Mark))
	left := map[Public]PeerState{}
	for _, p := range got.Peers {
		left[p.Key] = p
	}
	for _, p := range want.Peers {
		is, ok := left[p.Key]
		if !ok {
			differ("peer "+p.Key.String(), linux.Present, linux.Absent)
			continue
		}
		delete(left, p.Key)
		differ("endpoint of peer "+p.Key.String(), p.Endpoint.String(), is.Endpoint.String())
		differ("allowed addresses of peer "+p.Key.String(), listed(p.Allowed), listed(is.Allowed))
		differ("keepalive of peer "+p.Key.String(), "0s", is.Keepalive.String())
		differ("preshared key of peer "+p.Key.String(), "false", fmt.Sprint(is.Preshared))
	}
	for key := range left {
		differ("peer "+key.String(), linux.Absent, linux.Present)
	}
	return list, nil
}

// listed writes addresses in sorted order.
func listed(list []netip.Prefix) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.String()
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// library is the module path of the library.
const library = "golang.zx2c4.com/wireguard"

// Library returns the module path and version of the library.
func Library() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == library {
				return library + " " + m.Version
			}
		}
	}
	return library
}
