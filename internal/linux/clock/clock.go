package clock

import _ "unsafe" // for go:linkname

// Now returns CLOCK_MONOTONIC in nanoseconds. Every process of the machine has the same clock, so one worker can
// compare times written by another.
//
// It is the runtime's own function, which reads the clock through the vDSO (runtime/sys_linux_amd64.s, nanotime1). It
// has no stack check, so the Go scheduler cannot take a locked thread off its CPU there in the middle of a trial.
// time.Since reads the same clock but has such a check.
//
//go:linkname Now runtime.nanotime
//go:noescape
func Now() int64
