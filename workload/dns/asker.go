package dns

import (
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// asker makes queries and checks their answers.
//
// A query contains nothing unusual. An answer is matched by its id of 16 bits, whose first value differs between
// trials, and by the name, which must be the requested one. An answer of an earlier trial, or to an abandoned query, is
// taken for another only if both are the same.
type asker struct {
	queries   []byte // for all names, each size bytes
	size      int
	kind      uint16
	addresses int
	most      int      // length of a right answer in bytes
	order     []uint16 // order of the names, repeated
	marker    [markerSize]byte
	first     uint16 // id of the first query of the trial
	next      uint64 // the number after the highest one used
}

// newAsker makes an asker. The seed determines the order of names. announced is the answer size in bytes that it
// announces, if it is not 0.
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

// begin discards the last trial.
func (a *asker) begin(trial uint64) {
	putMarker(&a.marker, trial)
	// 2^16 divided by the golden ratio: the ids of consecutive trials are far apart
	a.first, a.next = uint16(trial*40503), 0
}

// Put implements [traffic.Codec]. It writes the query with a number and returns its length.
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

// Read implements [traffic.Codec]. It returns the number of the query that a message answers: the most recent one with
// the message's id. It reports whether the message is an answer, by its id and its question, and whether its content is
// right.
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

// answers reports whether a message is an answer to the query for a service, by its question. If the answer says that
// the server did not understand, the question may be missing.
//
//go:nosplit
func (a *asker) answers(m []byte, service int) bool {
	if get16(m, 4) == 0 && get16(m, 2)&rcodeMask != 0 {
		return true
	}
	return same(m, a.queries[service*a.size:][:a.size])
}

// same reports whether the question of a message equals that of a query, including letter case, which servers return
// unchanged.
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

// right reports whether the answer to the query for a service is complete, without an error, and has all of its
// addresses, in order.
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
