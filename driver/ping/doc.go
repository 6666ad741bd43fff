// Package ping is the driver ping: the workload ping by the ping of iputils.
//
// Its -w counts whole seconds: a trial has 1.5 s, of which requests are sent for one. Flooding is -A, which sends a
// request for each answer as ours does and, unlike -f, says each round trip; writing them takes it some time between
// two. Intervals are whole milliseconds. With -U it counts to when it has read the answer, wake-up included, as ours
// does; and always from when it sent the request, where ours counts from when that was due. It says µs.
package ping
