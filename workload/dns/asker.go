package dns

import (
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// asker makes queries and knows the answers to them.
//
// A query carries no more than any other: which one an answer belongs to is said by its id of 16 bits, with which the
// first query of each trial is another, and by the name, which has to be that which was asked for. An answer of an
// earlier trial, or to a query that was given up, passes for another only if both are the same.
type asker struct {
	queries   []byte // of all names, each size bytes
	size      int
	kind      uint16
	addresses int
	most      int      // bytes of an answer that is right
	order     []uint16 // of the names, again and again
	marker    [markerSize]byte
	first     uint16 // id of the first query of the trial
	next      uint64 // the number after the highest one that was asked
}

// newAsker makes one. The order of names follows from the seed. Announced is how many bytes of an answer it says that
// it takes, if it is not 0.
func newAsker(names, addresses int, kind uint16, announced int, seed uint64) (*asker, error) {
	a := &asker{
		kind: kind, addresses: addresses, most: answerSize(kind, addresses, announced > 0),
		order: make([]uint16, names),
	}
	for i, n := range workload.Services(names, seed) {
		a.order[i] = uint16(n)
	}
	for i := range names {
		q, err := query(workload.Service(i), kind, announced)
		if err != nil {
			return nil, err
		}
		a.size = len(q)
		a.queries = append(a.queries, q...)
	}
	return a, nil
}

// begin forgets the last trial.
func (a *asker) begin(trial uint64) {
	putMarker(&a.marker, trial)
	// 2^16 divided by the golden ratio: ids of trials after one another lie far apart
	a.first, a.next = uint16(trial*40503), 0
}

// Put implements [traffic.Codec]: it writes the query of a number and returns its length.
//
//go:nosplit
func (a *asker) Put(out []byte, seq uint64) int {
	if seq == traffic.Marker {
		return copy(out, a.marker[:])
	}
	a.next = max(a.next, seq+1)
	at := int(a.order[seq%uint64(len(a.order))]) * a.size
	n := copy(out, a.queries[at:at+a.size])
	put16(out, 0, a.first+uint16(seq))
	return n
}

// Read implements [traffic.Codec]: it returns the number of the query that a message answers: of those with its id the
// last that was asked. It says whether it answers one, by its id and its question, and whether it says what it should.
//
//go:nosplit
func (a *asker) Read(m []byte) (seq uint64, answers, right bool) {
	if len(m) < headerSize || get16(m, 2)&(flagResponse|opcodeMask) != flagResponse {
		return 0, false, false
	}
	if marks(m, &a.marker) {
		return traffic.Marker, true, true
	}
	if a.next == 0 {
		return 0, false, false
	}
	last := a.next - 1
	back := uint64(a.first + uint16(last) - get16(m, 0))
	if back > last {
		return 0, false, false
	}
	seq = last - back
	service := int(a.order[seq%uint64(len(a.order))])
	return seq, a.answers(m, service), a.right(m, service)
}

// answers says whether a message is an answer to the query for a service, by its question. One that says that the
// server did not understand need not have it.
//
//go:nosplit
func (a *asker) answers(m []byte, service int) bool {
	if get16(m, 4) == 0 && get16(m, 2)&rcodeMask != 0 {
		return true
	}
	return same(m, a.queries[service*a.size:][:a.size])
}

// same says whether the question of a message is that of a query: cases of letters too, which servers send back as they
// are.
//
//go:nosplit
func same(m, query []byte) bool {
	const end = headerSize + questionAt + 4
	if len(m) < end || get16(m, 4) != 1 {
		return false
	}
	for i := headerSize; i < end; i++ {
		if m[i] != query[i] {
			return false
		}
	}
	return true
}

// right says whether the answer to the query for a service is whole, without an error, and has all of its addresses, in
// order.
//
//go:nosplit
func (a *asker) right(m []byte, service int) bool {
	if get16(m, 4) != 1 || get16(m, 2)&(flagTruncated|rcodeMask) != 0 || int(get16(m, 6)) != a.addresses {
		return false
	}
	var want [16]byte
	at := headerSize + questionAt + 4
	for i := range a.addresses {
		size := address(want[:], a.kind, service, i)
		if at = skip(m, at); at < 0 || at+fixedSize+size > len(m) {
			return false
		}
		if get16(m, at) != a.kind || get16(m, at+2) != classIN || int(get16(m, at+8)) != size {
			return false
		}
		at += fixedSize
		for j := range size {
			if m[at+j] != want[j] {
				return false
			}
		}
		at += size
	}
	return true
}
