// Package remote passes the turn between machines that share no memory, over the calls that the controller makes to its
// workers. Workers get an opening time ahead, in their own clocks, and nothing is sent while a trial runs.
//
// A trial takes two calls to each worker that takes part, see [Methods of a worker]:
//
//	controller                      worker
//	turn.call ───────────────────▶  its threads prepare, and arrive
//	          ◀───────────────────  all have arrived
//	turn.open (opening, close) ──▶  its threads sleep until the opening
//	                                … the trial …
//	          ◀───────────────────  when they began and left, what the meters counted
//
// The opening is as far ahead as the slowest recent message to one of the workers took, and [margin] more.
//
// Each call is also an exchange of four times, as in RFC 5905 (NTP), section 8: it gives the offset of the worker's
// clock from the controller's, and its error, which is at most half of the round trip.
package remote
