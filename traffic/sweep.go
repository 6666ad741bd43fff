package traffic

import (
	"runtime"
	"runtime/metrics"
	"time"
)

const (
	// heapLimit is the amount of garbage from which the heap is cleaned between two trials, because garbage collection
	// is off.
	heapLimit = 64 << 20 // bytes
	inHeap    = "/memory/classes/heap/objects:bytes"

	// sweepTick is how long cleaning may be delayed.
	sweepTick = 10 * time.Millisecond
)

// Sweep cleans the heap if there is much garbage. It is called when no trial is under way, but threads may be about to
// wait for the next one. So it does not stop the world to measure the garbage. In Go 1.26, a thread that enters a
// system call at the very moment in which the world is stopped can be overlooked. If it stays there, the world waits
// until a timer is due, with sysmon asleep (runtime/proc.go: reentersyscall checks gcwaiting before it announces where
// it goes, and stopTheWorldWithSema looks for such threads once). On a busy machine, that happened five times in
// 100,000. While the world has to be stopped, a ticker keeps sysmon awake.
func Sweep() {
	s := []metrics.Sample{{Name: inHeap}}
	metrics.Read(s)
	if s[0].Value.Kind() == metrics.KindUint64 && s[0].Value.Uint64() <= heapLimit {
		return
	}
	t := time.NewTicker(sweepTick)
	defer t.Stop()
	runtime.GC()
}
