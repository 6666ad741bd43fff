// Package nuttcp is the driver nuttcp: tcp-stream and udp-rate, as its receiver counts them.
//
// Its -T counts whole seconds: a trial has 2.5 s, or of datagrams 4.5 s, of which traffic flows for one, and is over as
// soon as both ends have ended: after 1.1 s, or 3.3 s, as its last datagrams are half a second apart. It has no option
// for the congestion control: its streams get theirs from outside, some ms after they have begun with the default of
// their network namespace. At a rate it spins between two datagrams, and its sender chooses its own port.
package nuttcp
