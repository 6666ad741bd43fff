// Package encap holds the tcx programs that carry IP packets in IP packets or in GRE, with the maps of their peers.
// [Add] loads and hooks them, [Compare] compares them with the kernel, and [Count] returns their counters.
//
// The programs are in encap.c. Each peer has a pair of veth links. One program wraps packets that the host sends
// through the first link of the pair, and sends the outer packet to the peer. That link only says where packets go;
// none passes through it. The other program is where the outer packets arrive. It removes the outer headers and sends
// the rest out of the second link of the pair, so that the host receives it on the first. `make generate` compiles the
// programs again.
//
// Outer packets must not be fragmented, and copy the class of service and the congestion marks of the inner ones (RFC
// 6040). The programs accept packets of the tunnel's protocol to the host only if they come from a peer on the link
// below, are unfragmented and without options, and have consistent lengths. They refuse and count all others. The
// source address is trusted: the programs do not authenticate the sender.
//
// Large segments stay whole; a link that cannot carry them cuts them. The programs tell the kernel about the outer
// headers (BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 and others). They do not clear that mark when the headers are removed; whether
// the kernel would allow that was not tried. A bridge behind the tunnel, which has no features for encapsulated
// packets, therefore cuts the segments of streams in software. In a test, frames of 64 kB arrived at the link of the
// peer, and packets of the MTU at the container behind the bridge. Network ebpf, which bypasses the bridge and the
// stack, keeps them whole. The kernel's own tunnel devices do clear the mark (include/net/ip_tunnels.h,
// iptunnel_pull_offloads).
//
// According to the kernel's source, a packet can be in only one tunnel of these programs: a packet that a container or
// another tunnel above has already encapsulated is dropped (net/core/filter.c, bpf_skb_net_grow). That was not tried.
package encap
