package ipsec

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
)

// Port is the UDP port for ESP and IKE (RFC 3948, section 2).
const Port = 4500

// Families is the number of families of inner packets, IPv4 and IPv6.
const Families = 2

// A Config is the configuration of a host.
type Config struct {
	Cipher Cipher
	// Host is the number of the host, from 1, and At its address on the span below.
	Host int
	At   netip.Addr
	// Own are the addresses of the host and its containers as seen by other hosts.
	Own []netip.Prefix
	// Peers are the other hosts.
	Peers []Peer
	// Encapsulated says that ESP is in UDP.
	Encapsulated bool
	// Transport selects transport mode: everything that hosts send each other at these addresses is encrypted. There
	// are then no other addresses, neither of this host nor of the others.
	Transport bool
	// Epoch is how often keys were renewed (with the kernel): associations of different epochs can exist at the same
	// time. It wraps at [Epochs].
	Epoch int
}

// Epochs is the number of different epochs.
const Epochs = 128

// A Peer is another host.
type Peer struct {
	// Host is its number, and At its address on the span below.
	Host int
	At   netip.Addr
	// Ranges are the addresses to which packets are sent, and from which they are accepted.
	Ranges []netip.Prefix
	// Shared is the pre-shared key by which both authenticate each other (IKEv2, with charon).
	Shared Key
	// In and Out are the keys of packets from and to the peer (with the kernel): one of [Cipher.KeyLength] for each of
	// [Families].
	In, Out Key
}

// A Key never prints its bytes.
type Key struct{ bytes []byte }

// NewKey makes a key from a copy of the bytes.
func NewKey(b []byte) Key { return Key{slices.Clone(b)} }

// Format writes the type and never the bytes, for any verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "a key") }

// MarshalJSON always returns an error.
func (Key) MarshalJSON() ([]byte, error) {
	return nil, errors.New("a key must not be written anywhere")
}

// texts returns ranges as text.
func texts(list []netip.Prefix) []string {
	var all []string
	for _, p := range list {
		all = append(all, p.String())
	}
	return all
}

// listed writes a list in sorted order.
func listed(list []string) string { return strings.Join(slices.Sorted(slices.Values(list)), ", ") }
