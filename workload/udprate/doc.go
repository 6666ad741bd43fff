// Package udprate is the workload udp-rate: the source sends datagrams as fast as it can, or when they are due, and
// what the sink has received is the rate.
//
// The sender's rate is no result: what a full buffer drops was sent, too. Both are recorded, and loss is what lies
// between them. Both sockets have the buffers that the kernel gives to everybody, unless others are asked for. A larger
// one would hide that the receiver stood still for a moment, which an application's does not.
//
// A system call takes one datagram (mode single), many (batched: sendmmsg and recvmmsg), or one message that the kernel
// cuts into many and joins again (segmented: UDP_SEGMENT and UDP_GRO). What is counted are datagrams, each with a
// header of its own, in every mode. Between containers of one host a segmented message is never cut: it crosses the
// path as one packet, and so do its losses.
//
// A sink that has nothing to receive asks again for some 20 µs before it sleeps, as long as that is not in vain. It is
// faster than the path: if it slept after each datagram, the sender would have to wake it up each time, which takes 12
// to 30 % of the rate, another share in every run, and the slower a receiver the higher the rate. What waking somebody
// up costs is in the figures of udp-rr in mode wait. The CPU figures hold the asking.
//
// There is no latency here. The sender fills whatever queue it meets, so what its datagrams wait is the length of that
// queue divided by the rate: a figure of the buffer, not of the path. udp-rr measures the path. At a rate,
// departure_error is how late datagrams left.
//
// With search=no-drop a trial is a search for the highest rate with a loss below a bound: a flood, short steps at one
// rate after another, and a longer one that has to hold. A search takes 0.1 % for no loss: a step of 1000 datagrams
// cannot tell less, and the share is far below that at which an overloaded path starts. It sends what it searches at in
// time, not in bursts, so the source spins, and it needs a CPU of its own: a step in which source or sink had none for
// a millisecond is taken again. Several pairs search each by itself, while the others do: what they find adds up to
// what the path carries only where it shares itself out evenly.
package udprate
