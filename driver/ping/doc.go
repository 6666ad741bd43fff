// Package ping is the driver ping. It drives the workload ping with the ping of iputils.
//
// Its -w counts whole seconds: a trial takes 1.5 s, of which requests are sent for one. Flooding is -A, which sends a
// request for each answer, as nettoll's own engine does. Unlike -f, it prints each round trip, and printing takes it
// some time between two requests. Intervals are whole milliseconds. With -U it measures until it has read the answer,
// wake-up included, as nettoll's own engine does. It always measures from when it sent the request, whereas nettoll's
// own engine measures from when the request was due. It prints µs.
package ping
