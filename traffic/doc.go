// Package traffic is the engine of the workloads: the turn that passes from trial to trial, the threads that take it,
// the window, and the recorders for hot loops.
//
// # A trial
//
// The controller sets which workers take part in which cell, and then the order of a block ([Turns]). Every worker has
// one locked thread per pair, which takes its turns ([Turn]). A trial goes like this:
//
//	turn     the last thread of the trial before wakes the threads of this one
//	arrive   each prepares its socket and arrives at the gate; the last to arrive sets the opening time and opens it
//	run      source and sink loops, until the closing time; the window is the part after the warm-up
//	drain    the end marker, at most [DrainLimit]
//	leave    the last to leave passes the turn on
//
// Nothing is allocated, written or displayed between arrive and leave.
package traffic
