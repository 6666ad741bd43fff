package traffic

import (
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// Much garbage is collected, and little garbage is left alone.
func TestSweep(t *testing.T) {
	collect := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(collect)
	cycles := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	Sweep() // what earlier tests have left
	before := cycles()
	if Sweep(); cycles() != before {
		t.Error("it collected where there was nothing")
	}
	garbage := 0
	for range heapLimit>>20 + 1 {
		garbage += len(make([]byte, 1<<20, 1<<20+garbage%2)) // not on the stack
	}
	if Sweep(); cycles() == before {
		t.Errorf("%d bytes of garbage were left", garbage)
	}
}
