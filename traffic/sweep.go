package traffic

import (
	"runtime"
	"runtime/metrics"
	"time"
)

const (
	// heapLimit is how much may lie uncollected before the heap is cleaned between two trials: collection is off.
	heapLimit = 64 << 20 // bytes
	inHeap    = "/memory/classes/heap/objects:bytes"

	// sweepTick is how long cleaning may be held up.
	sweepTick = 10 * time.Millisecond
)

// Sweep cleans the heap where much lies uncollected. It is called when no trial is under way, and yet may threads be on
// their way to wait for the next one: it does not stop the world to find out how much there is. In Go 1.26 a thread
// that enters a system call in the very moment in which the world is stopped is overlooked, and if it stays there the
// world waits until a timer is due, with sysmon asleep (runtime/proc.go: reentersyscall looks at gcwaiting before it
// says where it goes, stopTheWorldWithSema looks for such threads once). On a busy machine that was seen five times in
// 100,000. Where the world has to be stopped, a ticker keeps sysmon awake.
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
