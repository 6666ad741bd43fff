package clock

import _ "unsafe" // for go:linkname

// Now returns CLOCK_MONOTONIC in nanoseconds: the same clock in every process of the machine, so that times written by
// one worker can be compared by another.
//
// It is the runtime's own reading through the vDSO (runtime/sys_linux_amd64.s, nanotime1): one clock read, no stack
// check, hence no point at which the Go scheduler could take a locked thread off its CPU in the middle of a trial.
// time.Since reads the same clock but is such a point.
//
//go:linkname Now runtime.nanotime
//go:noescape
func Now() int64
