// Package ovstunnel is the step that makes links whose frames Open vSwitch carries to other hosts, in userspace.
//
//	host                           network namespace of its own
//	geneve0 ---------------------- geneve0 | port of bridge inner
//	                                       |   flows: by MAC address to a tunnel port for each other host
//	                                       | bridge outer: has the host's address on the span below, again
//	gate -------------------------- gate0  | port of bridge outer
//	  | eBPF programs (package divert)
//	up0
//
// Open vSwitch sends tunnel packets through the bridge whose own link has the source address, and accepts packets for
// that address there (Documentation/howto/userspace-tunneling.rst). Usually the uplink is a port of that bridge, and
// the bridge has the uplink's address. Here everything that Open vSwitch needs is in a namespace of its own, for two
// reasons. Nothing changes on the span below, which may carry only Ethernet frames or only IP packets. And the network
// "ovs" can have its own Open vSwitch on the same host: two in userspace cannot share a namespace, because the datapath
// of each has a link of the same name. eBPF programs pass the outer packets between the gate and the links below.
//
// Open vSwitch knows the MAC address of the gate from the start, and resolves it again when its entry has expired.
// Checksums and segmentation are done before packets reach it, because its tunnels drop packets without (3.1). It reads
// packets from a socket with the kernel's default buffer, about 90 packets of full size. It loses some packets of
// larger bursts, such as those of TCP, which then retransmits them. When nothing is sent, both programs use 0.02 % of a
// core (two hosts, 3.1).
package ovstunnel
