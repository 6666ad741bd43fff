// Package divert holds eBPF programs for a tunnel whose outer packets are handled by a program such as ovs-vswitchd, in
// a network namespace of its own. The host has a link to it, the gate.
//
//	gate, tcx ingress:  nettoll_out   a packet of the tunnel: out by the link below, to the neighbour that its
//	                                  route has; else to the stack
//	below, tcx ingress: nettoll_in    a packet of the tunnel from a peer: out by the gate, with a header of Ethernet;
//	                                  from anybody else: dropped; else to the stack
//
// So outer packets have the addresses of the host itself and bypass filters and routes for forwarded packets. The links
// below may or may not carry Ethernet frames.
//
// divert.c is the source, and object_bpfel.o the compiled object (go generate; clang 14).
package divert
