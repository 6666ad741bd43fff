// Package gre is the tunnel "gre": IP packets or Ethernet frames in GRE, in IP packets from host to host.
//
// With inner=ip, packets of containers, of IPv4 and of IPv6, have the header of GRE before them (4 bytes, RFC 2784;
// IPv6 by RFC 7676) and are in packets of IPv4: 24 bytes more each. With outer=ipv6 they are in packets of IPv6: 44
// bytes more. With inner=ethernet they have a header of Ethernet, too: 14 bytes more. There are no keys, checksums or
// sequence numbers. Nothing is encrypted, and nothing tells a packet of a peer from one that somebody else sent with
// the peer's address.
//
// Each host has a link for each other host. IP packets are encapsulated by the kernel, by a device (gre or ip6gre), or
// by eBPF programs: see package encap. Frames are by the kernel (gretap or ip6gretap), or by Open vSwitch in userspace:
// see package ovstunnel. Then hosts have permanent neighbour entries for the links of the others, so that nothing is
// asked for.
package gre
