// Package nuttcp is the driver nuttcp. It drives tcp-stream and udp-rate, as the receiver counts them.
//
// Its -T counts whole seconds. A trial takes 2.5 s, or 4.5 s for datagrams, of which traffic flows for one. It is over
// as soon as both ends have ended: after 1.1 s, or after 3.3 s for datagrams, because its last datagrams are half a
// second apart. It has no option for the congestion control. Its streams begin with the default of their network
// namespace, and nettoll sets the congestion control from outside a few ms later. At a rate it spins between two
// datagrams. Its sender chooses its own port.
package nuttcp
