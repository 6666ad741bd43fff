// Package ebpf is the filter "ebpf": an eBPF program on tcx, at the ingress of the host's end of each container's link,
// and of every link by which packets of other hosts arrive. It comes before a program that forwards on the same hook
// (network ebpf), and before the host's stack or bridge.
//
// What is inside a packet of a tunnel or an encryption arrives once more, by the link of that, and is decided there:
//
//	container ── vsnk0   decided: what the container sends
//	             vxlan0  decided: what is inside packets of the tunnel
//	             wg0     passes: packets of the tunnel, for the host itself
//	underlay ─── up0     passes: packets of the encryption, for the host itself
//
// Without either, up0 is where packets of containers arrive, and they are decided there. The list is asked on each of
// these links, so that nothing else passes beside a tunnel either. Links without Ethernet frames, as of ipip or
// WireGuard, have a second program with the same maps.
//
// The list is looked into in one of three ways:
//
//	hash     a hash of source and sink to the ranges of the sink's ports: one look, however long the list is
//	lpm      a trie of the sources, as with a policy of address ranges, to a number, and a hash of that number and the
//	         sink
//	program  instructions: the source is compared with one after another, then the sink with those of that source, then
//	         the port
//
// In hash and lpm rules have no order, and the parameter "fillers" says nothing. Both are changed by writing one entry.
// A program is compiled anew and takes the place of the old one, link by link; every packet is decided by the one or
// the other.
//
// Stateful, the program has a table of its own of the flows that it let pass: what answers one passes, and its other
// packets pass once it was answered. The table has room for 65,536 flows, and forgets those that are quiet after as
// long as the kernel's own does; when it is full the one that was quiet for longest goes.
//
// If addresses are bound to links, another program at the egress of the links of containers asks the same map as the
// check of sources. It refuses IPv4 and IPv6 that is not for the MAC address and an address of the link: what a bridge
// passes on by a MAC address that the sender chose, or floods. Network ebpf chooses links by IP address, and redirects
// packets past that egress.
//
// A packet between containers of one host is decided once, where its source has sent it. What the host itself sends to
// a container is decided nowhere: no filter refuses it, and bpf_redirect_peer passes the egress of the container's
// link. For what comes from another host that would be too late or no place at all, so it is decided where it arrives,
// again: the list of both hosts has its pair. What is for the host itself passes only by the uplink and by links on
// which a tunnel stands, from other hosts, as these let nothing pass that their containers send there.
//
// A program comes to a link and goes from it in a grace period of RCU, some 8 ms at HZ=250 (see internal/linux/bpf), in
// which nobody else configures a network: a filter of a thousand containers takes 8 s to come, and as long to go. One
// that binds addresses hooks two programs for each container. Its list is loaded in one system call for each map.
//
// A program for 10,000 rules of each family is as large as the kernel still tells of; more are refused. Changing one
// rule of it compiles all.
//
// Fragments behind the first of their packet hold no ports and pass where any packet from their source to their sink
// may, or an answer. Errors of ICMP are refused. Neighbour discovery passes where it stays on its link: to groups and
// to addresses of a link, to the host, and between the ports of a bridge.
package ebpf
