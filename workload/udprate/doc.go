// Package udprate is the workload udp-rate: the source sends datagrams as fast as it can, or when they are due, and the
// rate is what the sink has received.
//
// The sender's rate is not a result, because a datagram that a full buffer drops was also sent. Both rates are
// recorded, and loss is the difference. Both sockets have the kernel's default buffers, unless others are requested. A
// larger buffer would hide that the receiver stood still for a moment, which an application's does not.
//
// A system call handles one datagram (mode single), many (batched: sendmmsg and recvmmsg), or one message that the
// kernel cuts into many and joins again (segmented: UDP_SEGMENT and UDP_GRO). In every mode, the workload counts
// datagrams, each with a header of its own. Between containers of one host, a segmented message is never cut: it
// crosses the path as one packet, and is lost as one.
//
// A sink with nothing to receive polls for about 20 µs before it sleeps, as long as polling succeeds. It is faster than
// the path: if it slept after each datagram, the sender would have to wake it up each time. That takes 12 to 30 % of
// the rate, varies from run to run, and makes the rate higher for a slower receiver. The cost of waking up is part of
// the figures of udp-rr in mode wait. The CPU figures include the polling.
//
// There is no latency here. The sender fills whatever queue it meets, so the delay of its datagrams is the length of
// that queue divided by the rate: a property of the buffer, not of the path. udp-rr measures the path. At a rate,
// departure_error is how late datagrams were sent.
//
// With search=no-drop, a trial is a search for the highest rate with a loss below a limit: a flood, short steps at one
// rate after another, and a longer step that has to confirm the rate. A search counts 0.1 % as no loss: a step of 1000
// datagrams cannot resolve less, and an overloaded path loses far more from the start. It spreads its datagrams evenly
// over time, so the source spins, and needs a CPU of its own: a step in which source or sink had none for a millisecond
// is repeated. Several pairs search independently and at the same time: the sum of their results is the capacity of the
// path only if they share it evenly.
package udprate
