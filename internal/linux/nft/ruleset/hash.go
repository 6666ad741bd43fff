package ruleset

import (
	"encoding/binary"
)

// sum is a hash that detects accidental differences (FNV-1a, 64 bits).
type sum uint64

const (
	sumBegin sum = 14695981039346656037
	sumPrime sum = 1099511628211
)

func (s sum) bytes(b []byte) sum {
	for _, c := range b {
		s = (s ^ sum(c)) * sumPrime
	}
	return s
}

func (s sum) number(n uint64) sum {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return s.bytes(b[:])
}

// hash returns the same for a rule as it was written and as the kernel returns it. The kernel may reorder the
// attributes of an expression, adds the values of counters, and leaves out numbers that belong to a transaction.
func (r Rule) hash() uint64 {
	s := sumBegin
	each(r, func(_ uint16, element []byte) {
		name := word(find(element, exprName))
		s = s.bytes([]byte(name)).number(0)
		if name == "counter" {
			return
		}
		attributes := sum(0) // a sum, so that the order has no effect
		each(find(element, exprData), func(kind uint16, value []byte) {
			if name == "lookup" && kind == 4 { // NFTA_LOOKUP_SET_ID
				return
			}
			a := sumBegin.number(uint64(kind))
			if holdsData(name, kind) {
				each(value, func(kind uint16, value []byte) { a = a.number(uint64(kind)).number(uint64(len(value))).bytes(value) })
			} else {
				a = a.bytes(value)
			}
			attributes += a
		})
		s = s.number(uint64(attributes))
	})
	return uint64(s)
}

// holdsData reports whether an attribute of an expression holds a value or a verdict, whose type may have the bit for
// nested attributes or not.
func holdsData(name string, kind uint16) bool {
	switch name {
	case "immediate":
		return kind == 2
	case "cmp":
		return kind == 3
	case "bitwise":
		return kind == 4 || kind == 5
	case "range":
		return kind == 3 || kind == 4
	}
	return false
}

// packets returns the values of the counters of a rule.
func packets(expressions []byte) (n uint64) {
	each(expressions, func(_ uint16, element []byte) {
		if word(find(element, exprName)) != "counter" {
			return
		}
		if value := find(find(element, exprData), counterPackets); len(value) == 8 {
			n += binary.BigEndian.Uint64(value)
		}
	})
	return n
}

// hash of an element.
func (e Element) hash() uint64 {
	return uint64(sumBegin.number(uint64(len(e.Key))).bytes(e.Key).bytes([]byte(e.Chain)))
}
