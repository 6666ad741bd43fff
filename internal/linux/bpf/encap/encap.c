//go:build ignore

// IP packets in IP packets or in GRE, between the hosts of a lab. See doc.go.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// No helper below is for programs under the GPL alone.
char licence[] SEC("license") = "Apache-2.0";

// NEXT leaves a packet to whatever program is next on the hook, and at last to the stack; DROP ends it: TCX_NEXT and
// TCX_DROP (include/uapi/linux/bpf.h).
#define NEXT (-1)
#define DROP 2

// Flags of bpf_skb_adjust_room that headers before Linux 6.4 do not have.
#define DECAP_L3_IPV4 (1ULL << 7)
#define DECAP_L3_IPV6 (1ULL << 8)

#define TTL 64          // RFC 1700, page 64
#define FRAGMENT 0x3fff // more fragments, and the offset (RFC 791, section 3.1)
#define DONT_FRAGMENT 0x4000
#define ECN 3 // RFC 3168, section 5
#define CE 3

// A header of GRE without options (RFC 2784, section 2.1).
struct gre {
	__be16 flags;
	__be16 proto;
};

// An address as packets have it, an IPv4 address in the first four bytes.
struct address {
	__u32 word[4];
};

struct outer4 {
	struct iphdr ip;
	struct gre gre;
};

struct outer6 {
	struct ipv6hdr ip;
	struct gre gre;
};

// Where packets go that are sent by a link.
struct way {
	__u32 below; // index of the link that the outer packets leave by
	struct address from, to; // outer addresses
};

// Who may send outer packets: those that come by a link, by their addresses.
struct peer {
	__u32 below;
	struct address from, to;
};

// Where the packets of a peer go.
struct end {
	__u32 out;  // index of the link that they are sent to: what it sends, link receives
	__u32 link; // index of the link that stands for the peer
	__u8 mac[ETH_ALEN]; // that of the link
	__u8 pad[2];
};

struct count {
	__u64 sent, received;
};

// The tunnel, set before the program is loaded.
volatile const __u8 with_gre = 0; // packets in GRE, otherwise in IP
volatile const __u8 over6 = 0;	  // over IPv6, otherwise over IPv4
volatile const __u8 bare = 0;	  // the links below have no header of Ethernet: those of a tunnel of layer 3

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct way);
} ways SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct peer);
	__type(value, struct end);
} peers SEC(".maps");

// By the index of a link; those of link 0 came from nobody.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct count);
} counts SEC(".maps");

static __always_inline void received(__u32 link)
{
	struct count *c = bpf_map_lookup_elem(&counts, &link);

	if (c)
		c->received++;
}

static __always_inline int refuse(void)
{
	received(0);
	return DROP;
}

// sum is that of the words of an IPv4 header without options, folded (RFC 1071).
static __always_inline __u16 sum(const struct iphdr *ip)
{
	const __u16 *word = (const void *)ip;
	__u32 s = 0;

#pragma unroll
	for (int i = 0; i < (int)sizeof(*ip) / 2; i++)
		s += word[i];
	s = (s & 0xffff) + (s >> 16);
	s += s >> 16;
	return s;
}

// On the egress of the links that stand for peers.
SEC("tcx/egress")
int nettoll_encap(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const __u32 gre = with_gre ? sizeof(struct gre) : 0;
	struct ethhdr *eth = data;
	struct count *count;
	const struct way *w;
	__u32 link = skb->ifindex, inner = skb->len - sizeof(*eth);
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	__be16 proto;
	__u8 tos, protocol;

	if ((void *)(eth + 1) > end || eth->h_dest[0] & 1) // the links take no part in groups
		return DROP;
	proto = eth->h_proto;
	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end)
			return DROP;
		tos = ip->tos;
		protocol = IPPROTO_IPIP;
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end)
			return DROP;
		tos = ip->priority << 4 | ip->flow_lbl[0] >> 4;
		protocol = IPPROTO_IPV6;
	} else {
		return DROP;
	}
	w = bpf_map_lookup_elem(&ways, &link);
	if (!w)
		return DROP;
	if (with_gre) {
		flags |= BPF_F_ADJ_ROOM_ENCAP_L4_GRE;
		protocol = IPPROTO_GRE;
	}
	if (over6) {
		struct outer6 o = {};

		o.ip.version = 6;
		o.ip.priority = tos >> 4;
		o.ip.flow_lbl[0] = tos << 4;
		o.ip.payload_len = bpf_htons(inner + gre);
		o.ip.nexthdr = protocol;
		o.ip.hop_limit = TTL;
		__builtin_memcpy(&o.ip.saddr, &w->from, sizeof(o.ip.saddr));
		__builtin_memcpy(&o.ip.daddr, &w->to, sizeof(o.ip.daddr));
		o.gre.proto = proto;
		if (bpf_skb_adjust_room(skb, sizeof(o.ip) + gre, BPF_ADJ_ROOM_MAC, flags | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6))
			return DROP;
		if (with_gre ? bpf_skb_store_bytes(skb, sizeof(*eth), &o, sizeof(o), 0)
			     : bpf_skb_store_bytes(skb, sizeof(*eth), &o, sizeof(o.ip), 0))
			return DROP;
		proto = bpf_htons(ETH_P_IPV6);
	} else {
		struct outer4 o = {};

		o.ip.version = 4;
		o.ip.ihl = sizeof(o.ip) / 4;
		o.ip.tos = tos;
		o.ip.tot_len = bpf_htons(inner + sizeof(o.ip) + gre);
		o.ip.frag_off = bpf_htons(DONT_FRAGMENT);
		o.ip.ttl = TTL;
		o.ip.protocol = protocol;
		o.ip.saddr = w->from.word[0];
		o.ip.daddr = w->to.word[0];
		o.ip.check = ~sum(&o.ip);
		o.gre.proto = proto;
		if (bpf_skb_adjust_room(skb, sizeof(o.ip) + gre, BPF_ADJ_ROOM_MAC, flags | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4))
			return DROP;
		if (with_gre ? bpf_skb_store_bytes(skb, sizeof(*eth), &o, sizeof(o), 0)
			     : bpf_skb_store_bytes(skb, sizeof(*eth), &o, sizeof(o.ip), 0))
			return DROP;
		proto = bpf_htons(ETH_P_IP);
	}
	if (bpf_skb_store_bytes(skb, __builtin_offsetof(struct ethhdr, h_proto), &proto, sizeof(proto), 0))
		return DROP;
	count = bpf_map_lookup_elem(&counts, &link);
	if (count)
		count->sent++;
	// The kernel looks for the route of the outer packet. Told the neighbour instead, it would leave the route of the inner
	// packet with it, and lose it by that when it has to wait for the neighbour's MAC address (net/core/neighbour.c,
	// __neigh_update).
	return bpf_redirect_neigh(w->below, 0, 0, 0);
}

// ours says whether a protocol is the tunnel's.
static __always_inline int ours(__u8 protocol)
{
	if (with_gre)
		return protocol == IPPROTO_GRE;
	return protocol == IPPROTO_IPIP || protocol == IPPROTO_IPV6;
}

// before is how much stands before the outer header. On a link without a header of Ethernet that is nothing, or the
// header that the packet had on a link below: xfrm keeps it (include/linux/skbuff.h, skb_mac_header_rebuild).
static __always_inline __u32 before(struct __sk_buff *skb)
{
	__u32 at[5], net[5], differ = 0;

	if (!bare)
		return sizeof(struct ethhdr);
	if (bpf_skb_load_bytes(skb, 0, at, sizeof(at)) ||
	    bpf_skb_load_bytes_relative(skb, 0, net, sizeof(net), BPF_HDR_START_NET))
		return 0;
#pragma unroll
	for (int i = 0; i < 5; i++)
		differ |= at[i] ^ net[i];
	return differ ? sizeof(struct ethhdr) : 0;
}

// On the ingress of the links that the outer packets arrive by. What is not of the tunnel's protocol is left to others.
// What is, and does not come from a peer as a peer sends it, ends here.
SEC("tcx/ingress")
int nettoll_decap(struct __sk_buff *skb)
{
	const __u32 gre = with_gre ? sizeof(struct gre) : 0;
	const __u32 header = over6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	const __u32 mac = before(skb);
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	struct ethhdr eth = {};
	void *data, *end;
	struct peer from = {.below = skb->ifindex};
	const struct end *to;
	__u32 length, inner;
	__u8 protocol, tos;
	__be16 proto;

	if (skb->pkt_type != PACKET_HOST)
		return NEXT;
	// What is looked at may stand in pieces.
	if (bpf_skb_pull_data(skb, mac + header))
		return NEXT;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (over6) {
		struct ipv6hdr *ip = data + mac;

		if ((void *)(ip + 1) > end || skb->protocol != bpf_htons(ETH_P_IPV6) || !ours(ip->nexthdr))
			return NEXT;
		if (ip->version != 6)
			return refuse();
		protocol = ip->nexthdr;
		tos = ip->priority << 4 | ip->flow_lbl[0] >> 4;
		length = bpf_ntohs(ip->payload_len) + sizeof(*ip);
		__builtin_memcpy(&from.from, &ip->saddr, sizeof(from.from));
		__builtin_memcpy(&from.to, &ip->daddr, sizeof(from.to));
	} else {
		struct iphdr *ip = data + mac;

		if ((void *)(ip + 1) > end || skb->protocol != bpf_htons(ETH_P_IP) || !ours(ip->protocol))
			return NEXT;
		if (ip->version != 4 || ip->ihl != sizeof(*ip) / 4 || ip->frag_off & bpf_htons(FRAGMENT) || sum(ip) != 0xffff)
			return refuse();
		protocol = ip->protocol;
		tos = ip->tos;
		length = bpf_ntohs(ip->tot_len);
		from.from.word[0] = ip->saddr;
		from.to.word[0] = ip->daddr;
	}
	to = bpf_map_lookup_elem(&peers, &from);
	if (!to || length > skb->len - mac || length < header + gre + sizeof(struct iphdr))
		return refuse();
	if (with_gre) {
		struct gre g;

		if (bpf_skb_load_bytes(skb, mac + header, &g, sizeof(g)) || g.flags)
			return refuse();
		proto = g.proto;
	} else {
		proto = protocol == IPPROTO_IPIP ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
	}
	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, mac + header + gre, &ip, sizeof(ip)) || ip.version != 4)
			return refuse();
		inner = bpf_ntohs(ip.tot_len);
		flags |= DECAP_L3_IPV4;
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, mac + header + gre, &ip, sizeof(ip)) || ip.version != 6)
			return refuse();
		inner = bpf_ntohs(ip.payload_len) + sizeof(ip);
		flags |= DECAP_L3_IPV6;
	} else {
		return refuse();
	}
	if (inner > length - header - gre)
		return refuse();
	if (bpf_skb_adjust_room(skb, -(__s32)(header + gre), BPF_ADJ_ROOM_MAC, flags))
		return refuse();
	// What met congestion on the way says so, or cannot be told (RFC 6040, section 4.2).
	if ((tos & ECN) == CE && !bpf_skb_ecn_set_ce(skb))
		return refuse();
	__builtin_memcpy(eth.h_dest, to->mac, ETH_ALEN);
	__builtin_memcpy(eth.h_source, to->mac, ETH_ALEN);
	eth.h_proto = proto;
	if ((!mac && bpf_skb_change_head(skb, sizeof(eth), 0)) || bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0))
		return refuse();
	received(to->link);
	return bpf_redirect(to->out, 0);
}
