// Package udprr is the workload udp-rr: one request in flight, a response of the same size, every round trip timed.
//
// In mode wait both ends sleep in recv(2), as an application does: the figure holds the path and the wake-up of a sleeping CPU. In
// mode spin both ends ask the socket again and again: the figure holds the path alone. The two answer different questions and have
// different ratios.
package udprr
