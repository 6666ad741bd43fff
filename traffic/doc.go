// Package traffic is the engine under the workloads: the turn that passes from trial to trial, the threads that take it, the
// window, and the recorders that keep what a hot loop saw.
//
// # A trial
//
// The controller lays out a [Board] in shared memory: the order of a block, and which workers take part in which cell. Every
// worker has one locked thread per pair. A trial goes like this:
//
//	turn     the last thread of the trial before wakes the threads of this one
//	arrive   each prepares its socket and arrives at the gate; the last to arrive sets the opening time and opens it
//	run      source and sink loops, until the closing time; the window is the part after the warm-up
//	drain    the end marker, at most [DrainLimit]
//	leave    the last to leave passes the turn on
//
// Nothing is allocated, written or shown between arrive and leave.
package traffic
