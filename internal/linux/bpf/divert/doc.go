// Package divert holds eBPF programs for a tunnel whose outer packets a program makes and takes, such as ovs-vswitchd,
// in a network namespace of its own. The host has a link to it, the gate.
//
//	gate, tcx ingress:  nettoll_out   a packet of the tunnel: out by the link below, to the neighbour that its
//	                                  route has; else to the stack
//	below, tcx ingress: nettoll_in    a packet of the tunnel from a peer: out by the gate, with a header of Ethernet;
//	                                  from anybody else: dropped; else to the stack
//
// So outer packets have the addresses of the host itself, meet no filter and no route of forwarded packets, and it does
// not matter whether the links below carry Ethernet frames.
//
// divert.c is the source, object_bpfel.o what was compiled from it (go generate; clang 14).
package divert
