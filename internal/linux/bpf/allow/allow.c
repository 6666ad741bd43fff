//go:build ignore

// Decides which packets of containers may pass. See doc.go.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// No helper below is for programs under the GPL alone.
char licence[] SEC("license") = "Apache-2.0";

// TCX_NEXT and TCX_DROP (include/uapi/linux/bpf.h): the next program on the hook decides, or none.
#define NEXT (-1)
#define DROP 2

// How a list is looked into: set before the program is loaded, and what is not asked for costs nothing (the verifier
// removes it).
enum { HASH, LPM, PROGRAM };
volatile const __u8 way = HASH;
volatile const __u8 stateful = 0;
// Whether containers are on one link, and ask each other for their addresses.
volatile const __u8 one_link = 0;
// Whether addresses are bound to links.
volatile const __u8 antispoof = 0;
// The link to other hosts, 0 if there is none: packets for the host itself pass there, and by the links of layers.
volatile const __u32 uplink = 0;
// The EtherType of frames that pass there besides, as what they hold arrives by another link. 0: there are none.
volatile const __u16 frames = 0;
// Whether there are layers.
volatile const __u8 layered = 0;
// What the compiled rules are, for who compares. Nobody reads it here.
volatile const __u8 digest[16] = {};

// A pair is a source and its sink, as packets have them. With LPM the source is its number, in the first word.
struct pair4 {
	__u32 source, sink;
};

struct pair6 {
	struct in6_addr source, sink;
};

#define RANGES 8

// The ports of the sink and of the source, in the order of the host.
struct ports {
	__u32 n;
	struct {
		__u16 first, last, source_first, source_last;
	} range[RANGES];
};

struct prefix4 {
	__u32 bits, address;
};

struct prefix6 {
	__u32 bits;
	struct in6_addr address;
};

// A flow is the same whichever of its ends speaks: a is the lower of the addresses. Those of IPv4 are in the first
// word, with zeros behind.
struct flow_key {
	struct in6_addr a, b;
	__u16 port_a, port_b; // both the number of an echo
	__u8 protocol, v6;
	__u16 zero;
};

struct flow {
	__u32 seen;   // s, of a clock that does not stop
	__u8 opener;  // 0: a has spoken first
	__u8 replied; // and the other has answered
	__u8 closing; // FIN or RST has been seen
	__u8 zero;
};

struct own_key {
	struct in6_addr address;
	__u32 v6;
};

struct mac {
	__u8 a[8]; // and two zeros
};

// What may be the source of what comes from a link, and the destination of what goes there. From one that is free
// anything may come.
struct binding {
	struct in6_addr v6, local;
	__u32 v4;
	__u8 mac[ETH_ALEN];
	__u8 free, zero;
};

// How many entries there are room for is set before they are loaded.

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct pair4);
	__type(value, struct ports);
} rules4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct pair6);
	__type(value, struct ports);
} rules6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix4);
	__type(value, __u32);
} sources4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix6);
	__type(value, __u32);
} sources6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

// The host's own addresses, and those of its links.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct own_key);
	__type(value, __u8);
} own SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct mac);
	__type(value, __u8);
} own_links SEC(".maps");

// By the index of the link.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct binding);
} bindings SEC(".maps");

// By the index of the link: those by which packets arrive that others are in, besides the uplink.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8);
} layers SEC(".maps");

enum { ALLOWED, REFUSED, COUNTERS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

// What a list says of a packet.
enum { NONE, PAIR, PORT };

// These are put in the place of rules that are compiled, see program_linux.go.

__attribute__((noinline)) int match4(__u32 source, __u32 sink, __u32 port, __u32 other)
{
	int found = NONE;

	asm volatile("" : "+r"(found) : "r"(source), "r"(sink), "r"(port), "r"(other));
	return found;
}

__attribute__((noinline)) int match6(const struct pair6 *pair, __u32 port, __u32 other)
{
	int found = NONE;

	if (!pair)
		return found;
	asm volatile("" : "+r"(found) : "r"(pair), "r"(port), "r"(other));
	return found;
}

static __always_inline int within(const struct ports *p, __u16 port, __u16 other)
{
	if (!p)
		return NONE;
#pragma unroll
	for (int i = 0; i < RANGES; i++) {
		if (i >= p->n)
			break;
		if (port >= p->range[i].first && port <= p->range[i].last && other >= p->range[i].source_first &&
			other <= p->range[i].source_last)
			return PORT;
	}
	return PAIR;
}

// match looks a packet up by its ends: port is that of the sink, and other that of the source.
static __always_inline int match(int v6, const struct in6_addr *source, const struct in6_addr *sink, __u16 port,
	__u16 other)
{
	if (v6) {
		struct pair6 pair = {.source = *source, .sink = *sink};

		if (way == PROGRAM)
			return match6(&pair, port, other);
		if (way == LPM) {
			struct prefix6 prefix = {.bits = 128, .address = *source};
			const __u32 *number = bpf_map_lookup_elem(&sources6, &prefix);

			if (!number)
				return NONE;
			__builtin_memset(&pair.source, 0, sizeof(pair.source));
			pair.source.s6_addr32[0] = *number;
		}
		return within(bpf_map_lookup_elem(&rules6, &pair), port, other);
	} else {
		struct pair4 pair = {.source = source->s6_addr32[0], .sink = sink->s6_addr32[0]};

		if (way == PROGRAM)
			return match4(pair.source, pair.sink, port, other);
		if (way == LPM) {
			struct prefix4 prefix = {.bits = 32, .address = pair.source};
			const __u32 *number = bpf_map_lookup_elem(&sources4, &prefix);

			if (!number)
				return NONE;
			pair.source = *number;
		}
		return within(bpf_map_lookup_elem(&rules4, &pair), port, other);
	}
}

struct packet {
	struct in6_addr source, sink;
	__u16 from, to; // ports in the order of the host; both the number of an echo
	__u8 protocol;
	__u8 fragment; // not the first of its packet
	__u8 request, reply; // of an echo
	__u8 opens;   // SYN without ACK
	__u8 closes;  // FIN or RST
	__u8 hops;
	__u8 neighbour; // who looks for neighbours, or answers
	__u8 type;      // of a message of ICMP, 0 where there is none
};

// How long a flow stands in which nothing is said, in seconds, as in the kernel's own table
// (net/netfilter/nf_conntrack_proto_udp.c, …_tcp.c).
#define UDP_ASKED 30
#define UDP_REPLIED 120
#define TCP_ASKED 120
#define TCP_REPLIED (5 * 24 * 3600)
#define TCP_CLOSING 120

static __always_inline __u32 lifetime(const struct flow *f, __u8 protocol)
{
	if (protocol == IPPROTO_TCP)
		return f->closing ? TCP_CLOSING : f->replied ? TCP_REPLIED : TCP_ASKED;
	return f->replied ? UDP_REPLIED : UDP_ASKED;
}

// key writes the key of a packet's flow, and returns whether b has sent it.
static __always_inline __u8 key(int v6, const struct packet *p, struct flow_key *k)
{
	int swap = 0;

	if (v6) {
#pragma unroll
		for (int i = 3; i >= 0; i--)
			if (p->source.s6_addr32[i] != p->sink.s6_addr32[i])
				swap = p->source.s6_addr32[i] > p->sink.s6_addr32[i];
	} else {
		swap = p->source.s6_addr32[0] > p->sink.s6_addr32[0];
	}
	k->a = swap ? p->sink : p->source;
	k->b = swap ? p->source : p->sink;
	k->port_a = swap ? p->to : p->from;
	k->port_b = swap ? p->from : p->to;
	k->protocol = p->protocol;
	k->v6 = v6;
	k->zero = 0;
	return swap;
}

static __always_inline __u32 now(void)
{
	return bpf_ktime_get_coarse_ns() / 1000000000;
}

static __always_inline int matches(int v6, const struct packet *p)
{
	int found = match(v6, &p->source, &p->sink, p->to, p->from);

	return p->request ? found != NONE : found == PORT;
}

// connected decides by flows: those that were answered pass, those that are asked for pass by the rules.
static __always_inline int connected(int v6, const struct packet *p)
{
	struct flow_key k;
	__u8 from = key(v6, p, &k);
	__u32 t = now();
	struct flow *f = bpf_map_lookup_elem(&flows, &k);

	if (f && t - f->seen > lifetime(f, p->protocol))
		f = 0;
	if (f && !p->opens && !p->request) {
		if (f->opener != from && !f->replied)
			f->replied = 1;
		if (f->replied) {
			if (f->seen != t)
				f->seen = t;
			if (p->closes && !f->closing)
				f->closing = 1;
			return 1;
		}
	}
	if (p->reply || !matches(v6, p))
		return 0;
	if (f && f->opener == from && !(p->opens && (f->replied || f->closing))) {
		if (f->seen != t)
			f->seen = t;
	} else {
		struct flow opened = {.seen = t, .opener = from};

		bpf_map_update_elem(&flows, &k, &opened, BPF_ANY);
	}
	return 1;
}

static __always_inline int allowed(int v6, const struct packet *p)
{
	int found;

	if (p->fragment)
		return match(v6, &p->source, &p->sink, 0, 0) != NONE || match(v6, &p->sink, &p->source, 0, 0) != NONE;
	if (stateful)
		return connected(v6, p);
	if (!p->reply && matches(v6, p))
		return 1;
	if (p->request || p->opens)
		return 0;
	found = match(v6, &p->sink, &p->source, p->from, p->to);
	return p->reply ? found != NONE : found == PORT;
}

// What a packet is read from: a frame of Ethernet, or a packet of IP on a link that has no frames.
enum { FRAME, BARE };

// LINEAR is how much of a packet in pieces is put together to be read, in bytes.
#define LINEAR 256

// load reads bytes of a packet, from where its frame begins or, on a link without frames, its header of IP. What such
// links hand on may have the header of another packet before that, so it is found by the kernel's own note of where it
// is, which helps with the first piece of a packet only.
static __always_inline long load(struct __sk_buff *skb, const int from, __u32 at, void *to, const __u32 length)
{
	if (from == FRAME)
		return bpf_skb_load_bytes(skb, at, to, length);
	if (!bpf_skb_load_bytes_relative(skb, at, to, length, BPF_HDR_START_NET))
		return 0;
	if (bpf_skb_pull_data(skb, skb->len < LINEAR ? skb->len : LINEAR))
		return -1;
	return bpf_skb_load_bytes_relative(skb, at, to, length, BPF_HDR_START_NET);
}

// taken says whether the host takes a packet as its own.
static __always_inline int taken(struct __sk_buff *skb, const int from)
{
	struct mac m = {};

	if (from == BARE)
		return 1;
	return !bpf_skb_load_bytes(skb, 0, &m, ETH_ALEN) && bpf_map_lookup_elem(&own_links, &m);
}

// itself says whether a packet is for the host.
static __always_inline int itself(struct __sk_buff *skb, const int from, int v6, const struct packet *p)
{
	struct own_key k = {.address = p->sink, .v6 = v6};

	return taken(skb, from) && bpf_map_lookup_elem(&own, &k);
}

// near says whether a packet of IPv6 stays on its link. The host forwards none to a group or to an address of a link
// (RFC 4291, sections 2.7 and 2.5.6), and at a bridge none but those that it takes: those would be one hop nearer to a
// container that they are not for.
static __always_inline int near(struct __sk_buff *skb, const int from, const struct packet *p)
{
	__u8 first = p->sink.s6_addr[0];

	return first == 0xff || (first == 0xfe && (p->sink.s6_addr[1] & 0xc0) == 0x80) || (one_link && !taken(skb, from));
}

// transport reads what is behind the addresses. It returns whether the packet is one that may be on a list.
static __always_inline int transport(struct __sk_buff *skb, const int from, __u32 at, struct packet *p)
{
	switch (p->protocol) {
	case IPPROTO_TCP: {
		struct {
			__be16 source, dest;
			__u32 sequence, acknowledged;
			__u8 offset, flags;
		} tcp;

		if (load(skb, from, at, &tcp, 14))
			return 0;
		p->from = bpf_ntohs(tcp.source);
		p->to = bpf_ntohs(tcp.dest);
		p->opens = (tcp.flags & 0x12) == 0x02;   // SYN of SYN and ACK (RFC 9293, section 3.1)
		p->closes = (tcp.flags & 0x05) != 0; // FIN, RST
		return 1;
	}
	case IPPROTO_UDP: {
		struct udphdr udp;

		if (load(skb, from, at, &udp, sizeof(udp)))
			return 0;
		p->from = bpf_ntohs(udp.source);
		p->to = bpf_ntohs(udp.dest);
		return 1;
	}
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6: {
		struct {
			__u8 type, code;
			__u16 sum, number, sequence;
		} icmp;
		int six = p->protocol == IPPROTO_ICMPV6;

		if (load(skb, from, at, &icmp, sizeof(icmp)))
			return 0;
		// RFC 4443, section 4; RFC 792.
		p->request = icmp.type == (six ? 128 : 8);
		p->reply = icmp.type == (six ? 129 : 0);
		p->from = p->to = icmp.number;
		p->type = icmp.type;
		// RFC 4861, sections 4.3 and 4.4. Nobody has forwarded what still has 255 hops to go (section 7.1).
		p->neighbour = six && (icmp.type == 135 || icmp.type == 136) && p->hops == 255;
		return p->request || p->reply || p->neighbour;
	}
	}
	return 0;
}

// HEADERS is how many extension headers of IPv6 are looked through.
#define HEADERS 6

static __always_inline int extended(struct __sk_buff *skb, const int from, __u32 at, struct packet *p)
{
	for (int i = 0; i < HEADERS; i++) {
		struct {
			__u8 next, length;
			__be16 offset;
			__u32 id;
		} h;

		switch (p->protocol) {
		case IPPROTO_TCP:
		case IPPROTO_UDP:
		case IPPROTO_ICMPV6:
			return transport(skb, from, at, p);
		case IPPROTO_HOPOPTS:
		case IPPROTO_DSTOPTS:
			if (load(skb, from, at, &h, sizeof(h)))
				return 0;
			at += (h.length + 1) * 8;
			break;
		case IPPROTO_FRAGMENT:
			if (load(skb, from, at, &h, sizeof(h)))
				return 0;
			if (h.offset & bpf_htons(0xfff8)) { // RFC 8200, section 4.5
				p->fragment = 1;
				return 1;
			}
			at += sizeof(h);
			break;
		default:
			return 0;
		}
		p->protocol = h.next;
	}
	return 0;
}

static __always_inline int count(__u32 which, int verdict)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n)
		(*n)++;
	return verdict;
}

static __always_inline int same(const struct in6_addr *a, const struct in6_addr *b)
{
	return a->s6_addr32[0] == b->s6_addr32[0] && a->s6_addr32[1] == b->s6_addr32[1] &&
		a->s6_addr32[2] == b->s6_addr32[2] && a->s6_addr32[3] == b->s6_addr32[3];
}

static __always_inline int same_mac(const __u8 *a, const __u8 *b)
{
	int differ = 0;

#pragma unroll
	for (int i = 0; i < ETH_ALEN; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

static __always_inline int mine(const struct binding *b, const struct in6_addr *a)
{
	return same(a, &b->v6) || same(a, &b->local);
}

// discovery says whether a message of neighbour discovery is the whole packet, names its link's addresses, and has no
// option but one with its link's MAC address. Receivers take an option wherever it stands, so no other may come before
// it (RFC 4861, sections 4.3 and 4.4).
static __always_inline int discovery(struct __sk_buff *skb, const struct binding *b, const struct packet *p)
{
	struct in6_addr target;
	struct {
		__be16 length;
		__u8 next;
	} ip;
	struct {
		__u8 type, length, mac[ETH_ALEN];
	} option;
	int duplicates = !(p->source.s6_addr32[0] | p->source.s6_addr32[1] | p->source.s6_addr32[2] | p->source.s6_addr32[3]);

	if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, payload_len), &ip, 3) || ip.next != IPPROTO_ICMPV6 ||
		(duplicates && p->type != 135))
		return 0;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(struct ipv6hdr) + 8, &target, sizeof(target)))
		return 0;
	if ((duplicates || p->type == 136) && !mine(b, &target))
		return 0;
	if (ip.length == bpf_htons(24))
		return 1;
	if (ip.length != bpf_htons(32) ||
		bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(struct ipv6hdr) + 24, &option, sizeof(option)) || option.length != 1)
		return 0;
	if (duplicates)
		return option.type == 14; // a nonce, RFC 7527
	return option.type == (p->type == 135 ? 1 : 2) && same_mac(option.mac, b->mac);
}

// bound6 says whether what comes from a link may be from its container.
static __always_inline int bound6(struct __sk_buff *skb, const struct binding *b, const struct packet *p)
{
	if (!mine(b, &p->source))
		return p->type == 135 &&
			!(p->source.s6_addr32[0] | p->source.s6_addr32[1] | p->source.s6_addr32[2] | p->source.s6_addr32[3]) &&
			discovery(skb, b, p);
	if (p->fragment)
		return 1;
	switch (p->protocol) {
	case IPPROTO_HOPOPTS: // headers that were not looked through
	case IPPROTO_ROUTING:
	case IPPROTO_FRAGMENT:
	case IPPROTO_AH:
	case IPPROTO_DSTOPTS:
		return 0;
	case IPPROTO_UDP:
		return p->from != 547; // of DHCP servers (RFC 8415, section 7.2)
	case IPPROTO_ICMPV6:
		// Errors and echoes (RFC 4443), members of groups (RFC 2710, RFC 3810).
		return (p->type >= 1 && p->type <= 4) || p->type == 128 || p->type == 129 || p->type == 131 || p->type == 132 ||
			p->type == 143 ||
		       ((p->type == 135 || p->type == 136) && discovery(skb, b, p));
	}
	return 1;
}

static __always_inline int bound4(const struct binding *b, const struct packet *p)
{
	if (p->source.s6_addr32[0] != b->v4)
		return 0;
	if (p->fragment)
		return 1;
	if (p->protocol == IPPROTO_UDP)
		return p->from != 67; // of DHCP servers (RFC 2131, section 4.1)
	return p->protocol != IPPROTO_ICMP || (p->type != 5 && p->type != 9); // redirects and routers (RFC 792, RFC 1256)
}

// bound_arp says whether ARP (RFC 826), of Ethernet and IPv4, names its link's addresses as those of the sender.
static __always_inline int bound_arp(struct __sk_buff *skb, const struct binding *b)
{
	struct {
		__be16 hardware, protocol;
		__u8 lengths[2];
		__be16 operation;
		__u8 mac[ETH_ALEN];
		__u8 address[4];
	} arp;

	return !bpf_skb_load_bytes(skb, ETH_HLEN, &arp, 18) && arp.hardware == bpf_htons(1) &&
		arp.protocol == bpf_htons(ETH_P_IP) && arp.lengths[0] == ETH_ALEN && arp.lengths[1] == 4 &&
	       same_mac(arp.mac, b->mac) && !__builtin_memcmp(arp.address, &b->v4, 4);
}

// bound says whether a frame has only source addresses that are bound to its link. p is what it holds, 0 for ARP.
static __always_inline int bound(struct __sk_buff *skb, int v6, const struct packet *p)
{
	__u32 link = skb->ifindex;
	const struct binding *b = bpf_map_lookup_elem(&bindings, &link);
	__u8 mac[ETH_ALEN];

	if (!b)
		return 0;
	if (b->free)
		return 1;
	if (bpf_skb_load_bytes(skb, ETH_ALEN, mac, ETH_ALEN) || !same_mac(mac, b->mac))
		return 0;
	if (!p)
		return bound_arp(skb, b);
	return v6 ? bound6(skb, b, p) : bound4(b, p);
}

// outer says whether packets arrive by a link that others are in.
static __always_inline int outer(struct __sk_buff *skb)
{
	__u32 link = skb->ifindex;

	return (uplink && link == uplink) || (layered && bpf_map_lookup_elem(&layers, &link));
}

static __always_inline int judge(struct __sk_buff *skb, const int from, int v6, int listed, const struct packet *p)
{
	// No container has a link without frames.
	if (antispoof && from == FRAME && !bound(skb, v6, p))
		return count(REFUSED, DROP);
	if (listed && p->neighbour) {
		if (near(skb, from, p) || itself(skb, from, v6, p))
			return NEXT;
	} else if (listed && allowed(v6, p)) {
		return count(ALLOWED, NEXT);
	}
	if (outer(skb) && itself(skb, from, v6, p))
		return NEXT;
	return count(REFUSED, DROP);
}

// decide decides a packet of IP that begins there.
static __always_inline int decide(struct __sk_buff *skb, const int from, int v6, const __u32 at)
{
	struct packet p = {};

	if (v6) {
		struct ipv6hdr ip;

		if (load(skb, from, at, &ip, sizeof(ip)))
			return count(REFUSED, DROP);
		p.source = ip.saddr;
		p.sink = ip.daddr;
		p.hops = ip.hop_limit;
		p.protocol = ip.nexthdr;
		return judge(skb, from, 1, extended(skb, from, at + sizeof(ip), &p), &p);
	} else {
		struct iphdr ip;
		int listed = 1;

		if (load(skb, from, at, &ip, sizeof(ip)))
			return count(REFUSED, DROP);
		p.source.s6_addr32[0] = ip.saddr;
		p.sink.s6_addr32[0] = ip.daddr;
		p.protocol = ip.protocol;
		if (ip.protocol == IPPROTO_ICMPV6)
			listed = 0;
		else if (ip.frag_off & bpf_htons(0x1fff)) // RFC 791, section 3.1
			p.fragment = 1;
		else
			listed = transport(skb, from, at + ip.ihl * 4, &p);
		return judge(skb, from, 0, listed, &p);
	}
}

// On the ingress of the host's links to containers, and of those to other hosts that have frames.
SEC("tcx/ingress")
int nettoll_filter(struct __sk_buff *skb)
{
	__be16 kind;

	if (bpf_skb_load_bytes(skb, offsetof(struct ethhdr, h_proto), &kind, sizeof(kind)))
		return count(REFUSED, DROP);
	if (kind == bpf_htons(ETH_P_IP))
		return decide(skb, FRAME, 0, ETH_HLEN);
	if (kind == bpf_htons(ETH_P_IPV6))
		return decide(skb, FRAME, 1, ETH_HLEN);
	if (kind == bpf_htons(ETH_P_ARP) && (!antispoof || bound(skb, 0, 0)))
		return NEXT;
	if (frames && uplink && skb->ifindex == uplink && kind == bpf_htons(frames))
		return NEXT;
	return count(REFUSED, DROP);
}

// meant says whether the frame is for the container behind its link: for its MAC address, and for one of its addresses.
// What is for a group is for nobody alone (RFC 5771; RFC 4291, section 2.7), as is a broadcast (RFC 919, section 7).
static __always_inline int meant(struct __sk_buff *skb, int v6)
{
	__u32 link = skb->ifindex;
	const struct binding *b = bpf_map_lookup_elem(&bindings, &link);
	struct in6_addr to = {};
	__u8 mac[ETH_ALEN];

	if (v6) {
		if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, daddr), &to, sizeof(to)))
			return 0;
		if (to.s6_addr[0] == 0xff)
			return 1;
	} else {
		if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct iphdr, daddr), &to, 4))
			return 0;
		if ((to.s6_addr[0] & 0xf0) == 0xe0 || to.s6_addr32[0] == 0xffffffff)
			return 1;
	}
	return b && !bpf_skb_load_bytes(skb, 0, mac, ETH_ALEN) && same_mac(mac, b->mac) &&
	       (v6 ? mine(b, &to) : to.s6_addr32[0] == b->v4);
}

// On the egress of the host's links to containers, after a bridge or the host's stack has chosen the link.
SEC("tcx/egress")
int nettoll_toward(struct __sk_buff *skb)
{
	__be16 kind;

	if (bpf_skb_load_bytes(skb, offsetof(struct ethhdr, h_proto), &kind, sizeof(kind)))
		return count(REFUSED, DROP);
	if (kind == bpf_htons(ETH_P_IP))
		return meant(skb, 0) ? NEXT : count(REFUSED, DROP);
	if (kind == bpf_htons(ETH_P_IPV6))
		return meant(skb, 1) ? NEXT : count(REFUSED, DROP);
	return NEXT;
}

// On the ingress of links to other hosts that have no frames, such as those of tunnels of layer 3.
SEC("tcx/ingress")
int nettoll_filter3(struct __sk_buff *skb)
{
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return decide(skb, BARE, 0, 0);
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return decide(skb, BARE, 1, 0);
	return count(REFUSED, DROP);
}
