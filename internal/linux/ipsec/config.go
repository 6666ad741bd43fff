package ipsec

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
)

// Port is the one of UDP for ESP and IKE (RFC 3948, section 2).
const Port = 4500

// Families is the number of families of packets inside, IPv4 and IPv6.
const Families = 2

// A Config is what a host is told.
type Config struct {
	Cipher Cipher
	// Host is the number of the host, from 1, and At its address on the span below.
	Host int
	At   netip.Addr
	// Own are the addresses at which others reach the host and its containers.
	Own []netip.Prefix
	// Peers are the other hosts.
	Peers []Peer
	// Encapsulated says that ESP is in UDP.
	Encapsulated bool
	// Transport says that it is in transport mode: all that hosts send each other at these addresses is encrypted. There
	// are no other addresses then, neither of the host nor of the others.
	Transport bool
	// Epoch is how often keys were renewed (by the kernel): associations of different epochs stand beside each other. It
	// wraps at [Epochs].
	Epoch int
}

// Epochs is the number of different epochs.
const Epochs = 128

// A Peer is another host.
type Peer struct {
	// Host is its number, and At its address on the span below.
	Host int
	At   netip.Addr
	// Ranges are the addresses that are sent to it and taken from it.
	Ranges []netip.Prefix
	// Shared is what both prove to each other that they know (IKEv2, by charon).
	Shared Key
	// In and Out are the keys of the packets from it and to it (by the kernel): one of [Cipher.KeyLength] for each of
	// [Families].
	In, Out Key
}

// A Key does not print itself.
type Key struct{ bytes []byte }

// NewKey makes a key of bytes that nobody else knows.
func NewKey(b []byte) Key { return Key{slices.Clone(b)} }

// Format writes what it is and not its bytes, whatever the verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "a key") }

// MarshalJSON is always an error.
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

// listed writes a list in an order of its own.
func listed(list []string) string { return strings.Join(slices.Sorted(slices.Values(list)), ", ") }
