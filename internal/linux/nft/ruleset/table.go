package ruleset

import (
	"errors"
	"iter"
)

// A Table is a table of nftables. Chains that packets come to from outside drop what nothing in them accepts.
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
	// Fields are what a key is made of, each beginning at a multiple of four bytes.
	Fields []Field
	// Map says that elements lead to chains.
	Map bool
	// Size is how many elements it can have.
	Size int
	// Elements are those it begins with. What they are made of is read before the next is asked for.
	Elements iter.Seq[Element]
}

// A Field is a part of a key: what nft(8) writes it as, enum datatypes of its include/datatype.h.
type Field uint32

// What there is.
const (
	IPv4 Field = 7  // 4 bytes
	IPv6 Field = 8  // 16 bytes
	MAC  Field = 9  // 6 bytes, and 2 more that are zero
	Port Field = 13 // 2 bytes, and 2 more that are zero
	Name Field = 41 // of a link: 16 bytes, with zeros behind the name
)

// length is how many bytes it takes, with those up to the next field.
func (f Field) length() uint32 {
	switch f {
	case IPv6, Name:
		return 16
	case MAC:
		return 8
	}
	return 4
}

// An Element is in a set.
type Element struct {
	Key []byte
	// Chain is where the map's element leads to; packets do not come back from it.
	Chain string
}

// A Chain is rules, one after another.
type Chain struct {
	Name string
	// Hook is where packets come from; nil for a chain that others lead to.
	Hook *Hook
	// Rules are read before the next is asked for.
	Rules iter.Seq[Rule]
}

// A Hook is where packets stop on their way.
type Hook struct {
	// Name is "forward", "input" or "output" in the family inet, "forward" in the family bridge, "ingress" in the family
	// netdev.
	Name     string
	Priority int32
	// Link is the name of the link, in the family netdev.
	Link string
}

// A Found is a rule that the kernel has.
type Found struct {
	// Chain is the name of its chain.
	Chain string
	// Handle is its number in the table.
	Handle uint64
	// Hash is as that of [Rule.Hash].
	Hash uint64
	// Packets is what its counters have counted.
	Packets uint64
}

// A Placed is a rule that was added.
type Placed struct {
	Chain  string
	Handle uint64
}

// Hash is equal of equal rules. Those that the kernel gives back have it, too.
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

// errInterrupted says that a table was changed while it was read.
var errInterrupted = errors.New("it was changed meanwhile")
