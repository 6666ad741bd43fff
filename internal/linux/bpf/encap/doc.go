// Package encap is the programs that carry IP packets in IP packets or in GRE, on tcx, with the maps that tell them
// between whom: [Add] loads and hooks them, [Compare] says what the kernel has of that, and [Count] what they counted.
//
// The programs are in encap.c. A pair of veth links stands for each peer. One puts what the host sends by the first of
// the pair into an outer packet, which it sends to the peer: that link only says where packets go, none passes it. The
// other is where the outer packets arrive. It takes the outer headers off, and sends what is left by the second link of
// the pair, so that the host receives it by the first. `make generate` compiles the programs anew.
//
// Outer packets may not be cut, and have the class of service and the congestion marks of the inner ones (RFC 6040).
// Those of the tunnel's protocol that a host gets are refused and counted unless they come by the link below, from a
// peer, whole, without options, with lengths that fit. Whoever writes a peer's address into a packet is believed:
// nothing here is a proof of who sent it.
//
// Large segments stay whole, and are cut by whatever link cannot carry them: the programs tell the kernel about the
// outer headers (BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 and others). They do not take that mark back when the headers are gone;
// whether the kernel would let them was not tried. A bridge behind the tunnel, which has no features for encapsulated
// packets, cuts the segments of streams in software: where it was tried, frames of 64 kB arrived at the link of the
// peer, and packets of the MTU at the container behind the bridge. Network ebpf, which goes past the bridge and the
// stack, keeps them whole. The kernel's own tunnel devices do take the mark back (include/net/ip_tunnels.h,
// iptunnel_pull_offloads).
//
// By the kernel's source a packet has one tunnel of these programs at most: what a container has encapsulated itself,
// or another tunnel above, is dropped (net/core/filter.c, bpf_skb_net_grow). That was not tried.
package encap
