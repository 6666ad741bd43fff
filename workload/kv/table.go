package kv

import "bytes"

// table finds values by their keys, with open addressing and linear probing (Knuth, The Art of Computer Programming,
// volume 3, section 6.4, algorithm L). Go's map is not suitable because of its stack checks, at each of which the Go
// scheduler may take the thread.
type table struct {
	slots []slot // a power of two, at least half of them empty
	used  int
}

type slot struct {
	hash uint64 // of the key; 0: the slot is empty
	key  []byte
	bulk []byte // the value in the form of its answer
}

// hash returns FNV-1a of 64 bits (Fowler, Noll and Vo).
//
//go:nosplit
func hash(key []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range key {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h | 1<<63 // never 0
}

// find returns the slot of a key; nil if there is none.
//
//go:nosplit
func (t *table) find(key []byte) *slot {
	if len(t.slots) == 0 {
		return nil
	}
	h := hash(key)
	for i := h; ; i++ {
		s := &t.slots[i&uint64(len(t.slots)-1)]
		if s.hash == 0 {
			return nil
		}
		if s.hash == h && bytes.Equal(s.key, key) {
			return s
		}
	}
}

// add makes a slot for a new key.
func (t *table) add(key []byte) *slot {
	if t.used++; 2*t.used > len(t.slots) {
		old := t.slots
		t.slots = make([]slot, max(16, 2*len(old)))
		for _, s := range old {
			if s.hash != 0 {
				*t.empty(s.hash) = s
			}
		}
	}
	s := t.empty(hash(key))
	s.hash, s.key = hash(key), bytes.Clone(key)
	return s
}

// empty returns the first empty slot for a hash.
func (t *table) empty(h uint64) *slot {
	for i := h; ; i++ {
		if s := &t.slots[i&uint64(len(t.slots)-1)]; s.hash == 0 {
			return s
		}
	}
}
