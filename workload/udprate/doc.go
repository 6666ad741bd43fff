// Package udprate is the workload udp-rate: the source sends datagrams as fast as it can, and what the sink has received is the rate.
//
// The sender's rate is no result: what a full buffer drops was sent, too. Both are recorded, and loss is what lies between them. One datagram is
// sent and one received per system call (mode single), both ends sleep in the kernel where they have to wait, and both sockets have the buffers that the
// kernel gives to everybody. A larger one would hide that the receiver stood still for a moment, which an application's does not.
//
// There is no latency here. The sender fills whatever queue it meets, so what its datagrams wait is the length of that queue divided by the
// rate: a figure of the buffer, not of the path. udp-rr measures the path.
package udprate
