// Package ping is the workload ping: ICMP echo requests (RFC 792, RFC 4443) that the kernel of the sink's container answers, one every so often or one
// for each answer.
//
// There is no program at the other end: its kernel answers in the soft interrupt that takes the request. What is left is the path both ways and the
// wake-up of the source, which sleeps until the answer comes. With an interval a request is sent whenever it is due, and latency counts from
// then; between two of them the CPU sleeps more deeply the longer it is, which is most of what ping(8) shows at a second. "flood" is ping -f with
// an answer for each request: nothing has time to fall asleep.
//
// The sink's side does nothing but wait for the end of the trial. Where addresses are translated by port ICMP has none, and who answers is the host that
// has the address: such cells would measure another path.
package ping
