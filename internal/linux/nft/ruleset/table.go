package ruleset

import (
	"errors"
	"iter"
)

// A Table is an nftables table. Its chains with a hook drop packets that no rule accepts.
type Table struct {
	// Family is "inet", "bridge" or "netdev".
	Family string
	Name   string
	Sets   []Set
	Chains []Chain
}

// A Set is a set of keys, or a map of keys to chains, in a hash table of a fixed size.
type Set struct {
	Name string
	// Fields are the parts of a key. Each begins at a multiple of four bytes.
	Fields []Field
	// Map says that elements lead to chains.
	Map bool
	// Size is the largest number of elements.
	Size int
	// Elements are the initial elements. The data of an element is read before the next one is requested.
	Elements iter.Seq[Element]
}

// A Field is the type of a part of a key, enum datatypes of include/datatype.h of nft(8).
type Field uint32

// The types.
const (
	IPv4 Field = 7  // 4 bytes
	IPv6 Field = 8  // 16 bytes
	MAC  Field = 9  // 6 bytes, and 2 zero bytes
	Port Field = 13 // 2 bytes, and 2 zero bytes
	Name Field = 41 // of a link: 16 bytes, the name padded with zeros
)

// length returns its length in bytes, up to the next field.
func (f Field) length() uint32 {
	switch f {
	case IPv6, Name:
		return 16
	case MAC:
		return 8
	}
	return 4
}

// An Element is an element of a set.
type Element struct {
	Key []byte
	// Chain is the chain to which the map's element leads; packets do not return from it.
	Chain string
}

// A Chain is a list of rules.
type Chain struct {
	Name string
	// Hook is where packets come from; nil for a chain that other chains call.
	Hook *Hook
	// Rules yields the rules. The data of a rule is read before the next one is requested.
	Rules iter.Seq[Rule]
}

// A Hook is the place at which a chain receives packets.
type Hook struct {
	// Name is "forward", "input" or "output" in the family inet, "forward" in the family bridge, "ingress" or
	// "egress" in the family netdev.
	Name     string
	Priority int32
	// Link is the name of the link, in the family netdev.
	Link string
}

// A Found is a rule in the kernel.
type Found struct {
	// Chain is the name of its chain.
	Chain string
	// Handle is its handle in the table.
	Handle uint64
	// Hash is comparable with [Rule.Hash].
	Hash uint64
	// Packets is the value of its counters.
	Packets uint64
}

// A Placed is a rule that was added.
type Placed struct {
	Chain  string
	Handle uint64
}

// Hash returns the same value for equal rules, including those that the kernel returns.
func (r Rule) Hash() uint64 { return r.hash() }

// All returns rules as a sequence.
func All(rules ...Rule) iter.Seq[Rule] {
	return func(yield func(Rule) bool) {
		for _, r := range rules {
			if !yield(r) {
				return
			}
		}
	}
}

// errInterrupted reports that a table was changed while it was read.
var errInterrupted = errors.New("it was changed meanwhile")
