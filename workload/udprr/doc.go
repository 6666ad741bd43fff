// Package udprr is the workload udp-rr: UDP requests and their answers, every round trip timed. One request is in
// flight, or so many, or each is sent when a schedule says.
//
// In mode wait both ends sleep in recv(2), as an application does: the figure holds the path and the wake-up of a
// sleeping CPU. In mode spin both ends ask the socket again and again: the figure holds the path alone. The two answer
// different questions and have different ratios.
//
// With one or so many in flight, a source that gets no answer sends no request: who stands still for a millisecond
// delays one request of thousands, and no percentile shows it. At a rate, requests are sent whatever is in flight and
// their latency counts from when they were due, so that whatever stood in their way is in it. Between two of them that
// are due within some 300 µs the source asks the clock and the socket in turn: its own wake-up is not in the figure
// then, the sink's is.
//
// Requests and answers can be as short as a byte. Where one of them has no room for nettoll's header of 24 bytes, a
// byte says which request it is.
//
// With timestamps the round trip is taken apart by the kernel's own notes: SenderStack from the call of send(2) to the
// driver of the container's own device, for the request; Wire from there to where the kernel of the other side has the
// packet, the mean of both directions; ReceiverStack from the kernel's having the answer to the return of recv(2),
// which in mode wait is mostly the wake-up. Each side makes some system calls more in a round trip, after its own
// datagram has left or come, each packet is cloned for its sender at every veth link that it leaves by before an IP
// layer takes it, and every packet of the machine gets a timestamp, those of other cells too: compare cells with
// timestamps with each other only. Loopback, veth and tun take timestamps of departure; a macvlan that hands packets to
// another of the same link does not, which a warning says.
package udprr
