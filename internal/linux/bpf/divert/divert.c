//go:build ignore

// Outer packets of a tunnel, between the links below and a program that makes and takes them. See doc.go.

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

#define FRAGMENT 0x3fff // more fragments, and the offset (RFC 791, section 3.1)

// An address as packets have it, an IPv4 address in the first four bytes.
struct address {
	__u32 word[4];
};

// Who may send outer packets: those that come by a link, by their addresses.
struct peer {
	__u32 below; // index of the link
	struct address from, to;
};

// Where the packets of a peer go.
struct end {
	__u32 gate;	   // index of the link that leads to the program
	__u8 to[ETH_ALEN]; // the header of Ethernet that they have there
	__u8 from[ETH_ALEN];
};

// The tunnel, set before the program is loaded.
volatile const __u8 protocol = 0; // what IP carries (IANA, Protocol Numbers)
volatile const __u16 port = 0;	  // the port, of UDP, that packets are for; 0: the protocol has none
volatile const __u8 over6 = 0;	  // over IPv6, otherwise over IPv4
volatile const __u8 bare = 0;	  // packets come in by the links below without a header of Ethernet

// The links that packets for a host leave by, by its address.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct address);
	__type(value, __u32);
} ways SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct peer);
	__type(value, struct end);
} peers SEC(".maps");

// ours says whether a packet, whose header of IP begins at mac, is of the tunnel, and from where to where it goes.
static __always_inline int ours(struct __sk_buff *skb, __u32 mac, struct address *from, struct address *to)
{
	const __u32 header = over6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	const __u32 ports = port ? 4 : 0;
	void *data, *end;

	// What is looked at may stand in pieces.
	if (bpf_skb_pull_data(skb, mac + header + ports))
		return 0;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (over6) {
		struct ipv6hdr *ip = data + mac;

		if ((void *)(ip + 1) > end || skb->protocol != bpf_htons(ETH_P_IPV6) || ip->nexthdr != protocol)
			return 0;
		__builtin_memcpy(from, &ip->saddr, sizeof(*from));
		__builtin_memcpy(to, &ip->daddr, sizeof(*to));
	} else {
		struct iphdr *ip = data + mac;

		if ((void *)(ip + 1) > end || skb->protocol != bpf_htons(ETH_P_IP) || ip->protocol != protocol ||
		    ip->ihl != sizeof(*ip) / 4 || ip->frag_off & bpf_htons(FRAGMENT))
			return 0;
		from->word[0] = ip->saddr;
		to->word[0] = ip->daddr;
	}
	if (port) {
		__be16 *to_port = data + mac + header + 2; // RFC 768

		if ((void *)(to_port + 1) > end || *to_port != bpf_htons(port))
			return 0;
	}
	return 1;
}

// On the ingress of the link by which the program sends. What is not of the tunnel, as questions for the MAC address of
// that link, is left to the stack.
SEC("tcx/ingress")
int nettoll_out(struct __sk_buff *skb)
{
	struct address from = {}, to = {};
	const __u32 *below;

	if (!ours(skb, sizeof(struct ethhdr), &from, &to))
		return NEXT;
	below = bpf_map_lookup_elem(&ways, &to);
	if (!below)
		return DROP;
	return bpf_redirect_neigh(*below, 0, 0, 0);
}

// On the ingress of the links that the outer packets arrive by. What is not of the tunnel is left to others. What is,
// and does not come from a peer, ends here.
SEC("tcx/ingress")
int nettoll_in(struct __sk_buff *skb)
{
	struct peer from = {.below = skb->ifindex};
	struct ethhdr eth = {};
	const struct end *to;

	if (skb->pkt_type != PACKET_HOST || !ours(skb, bare ? 0 : sizeof(eth), &from.from, &from.to))
		return NEXT;
	to = bpf_map_lookup_elem(&peers, &from);
	if (!to)
		return DROP;
	__builtin_memcpy(eth.h_dest, to->to, ETH_ALEN);
	__builtin_memcpy(eth.h_source, to->from, ETH_ALEN);
	eth.h_proto = skb->protocol;
	if ((bare && bpf_skb_change_head(skb, sizeof(eth), 0)) || bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0))
		return DROP;
	return bpf_redirect(to->gate, 0);
}
