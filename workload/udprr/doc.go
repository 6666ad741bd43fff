// Package udprr is the workload udp-rr: UDP requests and their answers, with the time of every round trip. There is one
// request in flight, or several, or each is sent on a schedule.
//
// In mode wait, both ends sleep in recv(2), like an application: the figure includes the path and the wake-up of a
// sleeping CPU. In mode spin, both ends poll the socket: the figure is that of the path alone. The two answer different
// questions and have different ratios.
//
// With a fixed number in flight, a source without an answer sends no request: an end that stands still for a
// millisecond delays one request out of thousands, and no percentile shows it. At a rate, requests are sent whatever is
// in flight. Their latency counts from when they were due, so that it includes every delay. If two of them are due
// within about 300 µs, the source checks the clock and the socket in turn: the figure then does not include the
// source's own wake-up, but that of the sink.
//
// Requests and answers can be as short as one byte. If one of them has no room for nettoll's header of 24 bytes, a byte
// identifies the request.
//
// With timestamps, the kernel's own records divide the round trip into parts. SenderStack is the time from the call of
// send(2) to the driver of the container's own device, for the request. Wire is the time from there until the kernel of
// the other side has the packet, the mean of both directions. ReceiverStack is the time from when the kernel has the
// answer to the return of recv(2), which in mode wait is mostly the wake-up. Each side makes a few more system calls in
// a round trip, after its own datagram was sent or received. Each packet is cloned for its sender at every veth link
// that it leaves before an IP layer handles it. And every packet of the machine gets a timestamp, also those of other
// cells. So compare cells with timestamps only with each other. Loopback, veth and tun record departures; a macvlan
// that passes packets to another one on the same link does not, and a warning says so.
package udprr
