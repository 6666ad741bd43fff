package workload

import "github.com/nettoll/nettoll/part"

// Limits of the default number of keys of a store: that many keys, with that many bytes of values. The values exceed
// the second-level cache of a CPU, like a real store. They are small enough to fill a server in about 10 ms for each
// trial, and for forty pairs to fit into the memory of a small machine.
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
