// Package ping is the workload ping: ICMP echo requests (RFC 792, RFC 4443) that the kernel of the sink's container
// answers, one every so often or one for each answer.
//
// There is no program at the other end: its kernel answers in the softirq that takes the request. Between
// containers of one machine that softirq runs inside the source's own send(2), and the answer is there when the
// call returns: no second CPU has a part in it and nobody has to be woken up. The figure is the path both ways and two
// system calls, 2 µs where udp-rr in mode spin has 3. Where packets are handed to another CPU or come from another
// machine, the source sleeps until the answer comes, and its wake-up is in the figure.
//
// With an interval a request is sent when it is due, and latency counts from then. The longer the interval, the more of
// the path's code and data other work has thrown out of the caches: five to ten times the figure of a flood from 1 to
// 10 ms on a busy machine, with the same minimum. That is what a seldom packet meets, and why ping(8) at one a second
// shows more than any network adds. The source asks the clock for the last 150 µs or more, so a sleeping CPU is awake
// when the request is due. "flood" is ping -f with one request for each answer: nothing gets cold. 1 ms is the default
// because a median needs 200 requests, and trials are short.
//
// The sink's side does nothing but wait for the end of the trial, and sees to it that requests came to its container.
// Where addresses are translated by port they do not: ICMP has none, and who answers is the host that has the address.
// Such a trial has failed.
package ping
