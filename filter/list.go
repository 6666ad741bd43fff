package filter

import (
	"encoding/binary"
	"iter"
	"math"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/part"
)

// NewList returns the allow-list for the parameters of a filter.
func NewList(families []string, allowed []Rule, proof *ProofPacket, p part.Params) List {
	return List{
		Families: families, Allowed: allowed, Decoys: p.Count(Rules), After: p[Decoys] == "after",
		Stateful: p.On(Stateful), Proof: proof,
	}
}

// Lists reports whether a family is listed.
func (l List) Lists(v6 bool) bool {
	family := "ipv4"
	if v6 {
		family = "ipv6"
	}
	return slices.Contains(l.Families, family)
}

// Rules yields all rules of a family, decoy rules included, in the order in which packets meet them.
func (l List) Rules(v6 bool) iter.Seq[Rule] {
	decoys := func(yield func(Rule) bool) bool {
		for i := range l.Decoys {
			if !yield(Decoy(i, v6)) {
				return false
			}
		}
		return true
	}
	return func(yield func(Rule) bool) {
		if !l.Lists(v6) || !l.After && !decoys(yield) {
			return
		}
		for _, r := range l.Allowed {
			if r.Sink.Is6() == v6 && !yield(r) {
				return
			}
		}
		if l.After {
			decoys(yield)
		}
	}
}

// Between returns those of the rules of a family whose source or sink has the address: what one container has to know.
func (l List) Between(a netip.Addr) []Rule {
	return slices.DeleteFunc(slices.Clone(l.Allowed), func(r Rule) bool { return r.Source != a && r.Sink != a })
}

// Pairs returns the rules with each source and sink once: those that may ask each other for echoes.
func Pairs(rules iter.Seq[Rule]) iter.Seq[Rule] {
	return func(yield func(Rule) bool) {
		type pair struct{ source, sink netip.Addr }
		seen := map[pair]bool{}
		for r := range rules {
			if p := (pair{r.Source, r.Sink}); !seen[p] {
				seen[p] = true
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Addresses of decoy rules: shared address space, which no lab uses (RFC 6598), and documentation (RFC 3849).
const (
	decoySources4 = 100<<24 | 64<<16
	decoySinks4   = 100<<24 | 96<<16
	decoyPort     = 1024
)

// Decoy returns a rule that no packet of a lab matches: number i, of one port. No two have the same addresses.
func Decoy(i int, v6 bool) Rule {
	port := uint16(decoyPort + i%60_000)
	r := Rule{First: port, Last: port, SourceLast: math.MaxUint16}
	if !v6 {
		var source, sink [4]byte
		binary.BigEndian.PutUint32(source[:], uint32(decoySources4+i))
		binary.BigEndian.PutUint32(sink[:], uint32(decoySinks4+i))
		r.Source, r.Sink = netip.AddrFrom4(source), netip.AddrFrom4(sink)
		return r
	}
	var source, sink [16]byte
	copy(source[:], []byte{0x20, 0x01, 0x0d, 0xb8, 0, 1})
	copy(sink[:], []byte{0x20, 0x01, 0x0d, 0xb8, 0, 2})
	binary.BigEndian.PutUint32(source[12:], uint32(i+1))
	binary.BigEndian.PutUint32(sink[12:], uint32(i+1))
	r.Source, r.Sink = netip.AddrFrom16(source), netip.AddrFrom16(sink)
	return r
}
