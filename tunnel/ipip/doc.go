// Package ipip is the tunnel "ipip": IP packets in IP packets, without a header between them.
//
// Packets of containers, of IPv4 (protocol 4, RFC 2003) and of IPv6 (protocol 41, RFC 4213), are in packets of IPv4
// from host to host: 20 bytes more each. With outer=ipv6 they are in packets of IPv6 (RFC 2473): 40 bytes more. Nothing
// is encrypted, and nothing tells a packet of a peer from one that somebody else sent with the peer's address.
//
// Either the kernel encapsulates, by a device for each other host (sit, which carries both families, or ip6tnl), or
// eBPF programs do: see package encap.
package ipip
