// Package udprate is the workload udp-rate: the source sends datagrams as fast as it can, and what the sink has received is the rate.
//
// The sender's rate is no result: what a full buffer drops was sent, too. Both are recorded, and loss is what lies between them. One datagram is
// sent and one received per system call (mode single), and both sockets have the buffers that the kernel gives to everybody. A larger one would
// hide that the receiver stood still for a moment, which an application's does not.
//
// A sink that has nothing to receive asks again for some 20 µs before it sleeps, as long as that is not in vain. It is faster than the path:
// if it slept after each datagram, the sender would have to wake it up each time, which takes 12 to 30 % of the rate, another share in every run,
// and the slower a receiver the higher the rate. What waking somebody up costs is in the figures of udp-rr in mode wait. The CPU figures
// hold the asking.
//
// There is no latency here. The sender fills whatever queue it meets, so what its datagrams wait is the length of that queue divided by the
// rate: a figure of the buffer, not of the path. udp-rr measures the path.
package udprate
