// Package ping is the workload ping: ICMP echo requests (RFC 792, RFC 4443) that the kernel of the sink's container
// answers, at an interval or one after each answer.
//
// There is no program at the other end: its kernel answers in the softirq that receives the request. Between containers
// of one machine, that softirq runs inside the source's own send(2), and the answer is there when the call returns. No
// second CPU takes part, and nothing has to be woken up. The figure is the path in both directions and two system
// calls, 2 µs, compared with 3 µs for udp-rr in mode spin. If packets are handed to another CPU or come from another
// machine, the source sleeps until the answer arrives, and the figure includes its wake-up.
//
// With an interval, a request is sent when it is due, and latency counts from then. The longer the interval, the more
// of the path's code and data other work evicts from the caches. On a busy machine, intervals from 1 to 10 ms give five
// to ten times the figure of a flood, with the same minimum. That is the cost of a rare packet, and the reason why
// ping(8) with one request a second shows more than any network adds. The source polls the clock for at least the last
// 150 µs, so a sleeping CPU is awake when the request is due. "flood" is ping -f with one request for each answer:
// nothing gets cold. The default is 1 ms because a median needs 200 requests, and trials are short.
//
// The sink's side only waits for the end of the trial, and checks that requests have reached its container. They do not
// if addresses are translated by port: ICMP has no ports, and the host with the address answers. Such a trial has
// failed.
package ping
