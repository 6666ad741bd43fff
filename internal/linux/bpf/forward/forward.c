//go:build ignore

// Forwarding between the containers of a host, and from and to other hosts. See doc.go.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// No helper below is for programs under the GPL alone.
char licence[] SEC("license") = "Apache-2.0";

// NEXT leaves a packet to whatever program is next on the hook, and at last to the stack: TCX_NEXT on tcx,
// TC_ACT_UNSPEC of a classifier, NETKIT_NEXT on netkit (include/uapi/linux/bpf.h, linux/pkt_cls.h, linux/if_link.h) are
// one number.
#define NEXT (-1)

// ROUTERS_LAST is the time to live that a router forwards no more: it takes one away, and sends nothing on without any
// (RFC 1812, section 5.3.1).
#define ROUTERS_LAST 1
#define TTL 64 // of outer packets: RFC 1700, page 64

#define AF_INET 2
#define AF_INET6 10

// A container of this host.
struct container {
	__u32 link;        // index of the host's link to it
	__u8 to[ETH_ALEN]; // the container's own address
	__u8 from[ETH_ALEN]; // that of the host's link
};

// What an external tunnel device is told about a packet: see bpf_skb_set_tunnel_key of bpf-helpers(7).
struct tunnel {
	__u32 flags; // of that call, and TUNNELLED; 0: the uplink is no such device
	__u32 id;
	__u32 remote[4]; // of IPv4 the first, as the host has numbers; of IPv6 as packets have it
	__u32 local[4];
};

#define TUNNELLED (1U << 31)

// A range of containers of another host. Addresses are as packets have them.
struct range4 {
	__u32 link; // index of the uplink
	__u32 mtu;  // of that, in bytes
	__u32 via;  // the other host
	struct tunnel tunnel;
};

struct range6 {
	__u32 link;
	__u32 mtu;
	struct in6_addr via;
	struct tunnel tunnel;
};

struct key4 {
	__u32 bits; // of the prefix
	__u32 to;
};

struct key6 {
	__u32 bits;
	struct in6_addr to;
};

// How many entries there are room for is set before they are loaded.

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct container);
} containers4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct in6_addr);
	__type(value, struct container);
} containers6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct key4);
	__type(value, struct range4);
} ranges4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct key6);
	__type(value, struct range6);
} ranges6 SEC(".maps");

// How many packets the programs have sent on, by CPU.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} forwarded SEC(".maps");

// count counts a packet that is sent on. A large segment is one packet. Programs on these hooks run with softirqs off,
// so nobody else counts on this CPU meanwhile.
static __always_inline void count(void)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&forwarded, &zero);

	if (n)
		++*n;
}

// neighbours says whether a packet is between neighbours on a link: no router forwards what comes from a link-local
// address (RFC 4291, section 2.5.6). The stack, which gets it then, drops it.
static __always_inline int neighbours(const struct ipv6hdr *ip)
{
	return (ip->saddr.s6_addr32[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

static __always_inline void readdress(struct ethhdr *eth, const struct container *c)
{
	__builtin_memcpy(eth->h_dest, c->to, ETH_ALEN);
	__builtin_memcpy(eth->h_source, c->from, ETH_ALEN);
}

// age takes one from the time to live, which is the upper byte of a word of the header, and puts the checksum right:
// the sum of the words is as much less as the checksum becomes more, with the carry going round (RFC 1141).
static __always_inline void age(struct iphdr *ip)
{
	__u32 sum = ip->check + bpf_htons(0x0100);

	ip->check = (__u16)(sum + (sum >> 16));
	ip->ttl--;
}

// tunnelled tells an external device where a packet goes, and 0 if it did.
static __always_inline int tunnelled(struct __sk_buff *skb, const struct tunnel *t)
{
	struct bpf_tunnel_key key = {.tunnel_id = t->id, .tunnel_ttl = TTL};

	__builtin_memcpy(key.remote_ipv6, t->remote, sizeof(t->remote));
	__builtin_memcpy(key.local_ipv6, t->local, sizeof(t->local));
	return bpf_skb_set_tunnel_key(skb, &key, sizeof(key), t->flags & ~TUNNELLED);
}

// fits says whether a packet is within an MTU; of a large segment, each packet that it will become. One that is not, the
// stack gets: it cuts the packet, or answers with the MTU (RFC 1812, section 5.2.6; RFC 4443, section 3.2). above is
// where the transport's header begins.
static __always_inline int fits(const struct __sk_buff *skb, __u32 mtu, void *above, __u8 protocol)
{
	void *ip = (void *)(long)skb->data + sizeof(struct ethhdr), *end = (void *)(long)skb->data_end;
	const struct tcphdr *tcp = above;
	__u32 header = sizeof(struct udphdr);

	if (!skb->gso_size)
		return skb->len - sizeof(struct ethhdr) <= mtu;
	if (protocol == IPPROTO_TCP) {
		if ((void *)(tcp + 1) > end)
			return 0;
		header = tcp->doff * 4;
	}
	return above - ip + header + skb->gso_size <= mtu;
}

// forward sends a packet on. peer: straight into the container, past the host's link to it; otherwise out of that link.
static __always_inline int forward(struct __sk_buff *skb, int peer)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	const struct container *c;

	// Broadcasts, and what is for somebody else's MAC address, no router forwards (RFC 1812, section 5.3.4).
	if (skb->pkt_type != PACKET_HOST || (void *)(eth + 1) > end)
		return NEXT;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->ttl <= ROUTERS_LAST)
			return NEXT;
		c = bpf_map_lookup_elem(&containers4, &ip->daddr);
		if (!c) {
			struct key4 key = {.bits = 32, .to = ip->daddr};
			const struct range4 *r = bpf_map_lookup_elem(&ranges4, &key);
			struct bpf_redir_neigh next = {.nh_family = AF_INET};

			if (!r || !fits(skb, r->mtu, (void *)ip + ip->ihl * 4, ip->protocol))
				return NEXT;
			age(ip);
			next.ipv4_nh = r->via;
			if (r->tunnel.flags && tunnelled(skb, &r->tunnel))
				return TC_ACT_SHOT;
			count();
			return bpf_redirect_neigh(r->link, &next, sizeof(next), 0);
		}
		age(ip);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(eth + 1);
		const struct range6 *r = 0;

		if ((void *)(ip + 1) > end || ip->hop_limit <= ROUTERS_LAST || neighbours(ip))
			return NEXT;
		c = bpf_map_lookup_elem(&containers6, &ip->daddr);
		if (!c) {
			struct key6 key = {.bits = 128, .to = ip->daddr};

			r = bpf_map_lookup_elem(&ranges6, &key);
			if (!r || !fits(skb, r->mtu, ip + 1, ip->nexthdr))
				return NEXT;
		}
		// No checksum of its own covers the hop limit: where the NIC has summed the whole packet up, that sum changes.
		ip->hop_limit--;
		bpf_csum_update(skb, (__u16)~bpf_htons(1));
		if (r) {
			struct bpf_redir_neigh next = {.nh_family = AF_INET6};

			__builtin_memcpy(next.ipv6_nh, &r->via, sizeof(r->via));
			if (r->tunnel.flags && tunnelled(skb, &r->tunnel))
				return TC_ACT_SHOT;
			count();
			return bpf_redirect_neigh(r->link, &next, sizeof(next), 0);
		}
	} else {
		return NEXT;
	}
	readdress(eth, c);
	count();
	return peer ? bpf_redirect_peer(c->link, 0) : bpf_redirect(c->link, 0);
}

// On the ingress of the host's links to containers, and of its uplink.
SEC("tcx/ingress")
int nettoll_forward(struct __sk_buff *skb)
{
	return forward(skb, 1);
}

// On the ingress of an uplink without Ethernet frames, such as a tunnel of layer 3: the packet begins with its IP header,
// and gets that of Ethernet here. Only packets to containers arrive there; others are left to the stack.
SEC("tcx/ingress")
int nettoll_bare(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const struct container *c;
	struct ethhdr eth = {.h_proto = skb->protocol};

	if (skb->pkt_type != PACKET_HOST)
		return NEXT;
	if (eth.h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data;

		if ((void *)(ip + 1) > end || ip->ttl <= ROUTERS_LAST)
			return NEXT;
		c = bpf_map_lookup_elem(&containers4, &ip->daddr);
		if (!c)
			return NEXT;
		age(ip);
	} else if (eth.h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data;

		if ((void *)(ip + 1) > end || ip->hop_limit <= ROUTERS_LAST || neighbours(ip))
			return NEXT;
		c = bpf_map_lookup_elem(&containers6, &ip->daddr);
		if (!c)
			return NEXT;
		ip->hop_limit--;
		bpf_csum_update(skb, (__u16)~bpf_htons(1));
	} else {
		return NEXT;
	}
	readdress(&eth, c);
	if (bpf_skb_change_head(skb, sizeof(eth), 0) || bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0))
		return TC_ACT_SHOT;
	count();
	return bpf_redirect_peer(c->link, 0);
}

// On the container's end of a netkit, from the side of the host: what is sent there has not arrived anywhere yet, and
// cannot be moved on to a peer (drivers/net/netkit.c, netkit_xmit).
SEC("netkit/peer")
int nettoll_netkit(struct __sk_buff *skb)
{
	return forward(skb, 0);
}

// On the host's links to containers, between those of this host alone.
SEC("xdp.frags")
int nettoll_xdp(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	const struct container *c;

	if ((void *)(eth + 1) > end || eth->h_dest[0] & 1) // not one's own: a group (IEEE 802, section 8.2)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->ttl <= ROUTERS_LAST)
			return XDP_PASS;
		c = bpf_map_lookup_elem(&containers4, &ip->daddr);
		if (!c)
			return XDP_PASS;
		age(ip);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->hop_limit <= ROUTERS_LAST || neighbours(ip))
			return XDP_PASS;
		c = bpf_map_lookup_elem(&containers6, &ip->daddr);
		if (!c)
			return XDP_PASS;
		ip->hop_limit--;
	} else {
		return XDP_PASS;
	}
	readdress(eth, c);
	count();
	return bpf_redirect(c->link, 0);
}
