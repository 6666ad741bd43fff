// Package iptunnel is the step that makes links which carry IP packets to other hosts, in IP packets or in GRE. The
// kernel's devices do that, or eBPF programs.
//
// The programs keep large segments (GSO) whole on their entire way, up to the same size as the kernel's VXLAN. There is
// one exception. After a packet has left a tunnel, eBPF cannot tell the kernel that the packet is no longer in one
// (skb->encapsulation). The kernel then asks a device which tunnel features it has (net/core/dev.c, netif_skb_features,
// hw_enc_features). A veth has all of them, and a bridge none (seen with Linux 6.18; a patch of October 2025, "net:
// bridge: use common function to compute the features", gives it those of its ports). So if a host routes arrived
// packets to a bridge, the bridge cuts segments of 52 kB into packets of 1492 bytes. A stream is then about half as
// fast as under the networks routed and ebpf, which have no bridge. The packets themselves are the same.
package iptunnel
