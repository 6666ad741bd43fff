package workload

import "github.com/nettoll/nettoll/part"

// Where nobody says how many keys a store has they are so many at most, with so many bytes of values at most: more than
// the second level cache of a CPU has room for, as a store has, and little enough that a server that is started for
// each trial is filled in some 10 ms, and that forty pairs fit into the memory of a small machine.
const (
	autoKeys   = 1000
	autoValues = 16 << 20
)

// Keys returns the number of keys in the store of workload kv.
func Keys(p part.Params) int {
	if p["keys"] == auto {
		return max(1, min(autoKeys, autoValues/p.Size("payload")))
	}
	return p.Count("keys")
}
