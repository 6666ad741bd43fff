// Package gre is the tunnel "gre": IP packets in GRE, in IP packets from host to host.
//
// Packets of containers, of IPv4 and of IPv6, have the header of GRE before them (4 bytes, RFC 2784; IPv6 by RFC 7676)
// and are in packets of IPv4: 24 bytes more each. With outer=ipv6 they are in packets of IPv6: 44 bytes more. There are
// no keys, checksums or sequence numbers. Nothing is encrypted, and nothing tells a packet of a peer from one that
// somebody else sent with the peer's address.
//
// Either the kernel encapsulates, by a device for each other host (gre or ip6gre), or eBPF programs do: see package
// encap.
package gre
