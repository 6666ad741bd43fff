// Package iptunnel is the step that makes links which carry IP packets to other hosts, in IP packets or in GRE. The
// kernel's devices do that, or eBPF programs.
//
// Programs keep large segments (GSO) in one piece on their whole way: as large as the kernel's VXLAN has them. There
// is one exception. eBPF cannot tell the kernel that what it has taken out of a tunnel is in none any more
// (skb->encapsulation). The kernel then asks a device for what it can do with tunnels (net/core/dev.c,
// netif_skb_features, hw_enc_features). A veth can all, and a bridge nothing (seen with Linux 6.18; a patch of October
// 2025, "net: bridge: use common function to compute the features", gives it what its ports can). So if a host routes
// what has arrived to a bridge, the bridge cuts segments of 52 kB into packets of 1492 bytes, and a stream is about
// half as fast as under the networks routed and ebpf, which have no bridge. The packets themselves are the same.
package iptunnel
