// Package filter holds the kind of part that enforces an allow-list: what a filter is asked to let through ([Site],
// [List]), and what it answers with, steps for a host that can be verified, changed while traffic flows, and removed.
// Each folder below is one filter.
//
// A list names, for each pair under test, its source, its sink and the sink's ports. The filter lets pass, in each
// family that is listed:
//
//   - UDP and TCP from the source's own ports to those ports of the sink, and what answers them: whatever comes back on
//     the same flow where the filter is stateful, else any UDP datagram, and any TCP segment that opens no connection
//     (SYN without ACK), from those ports of the sink to the source's own. So a stateless filter lets a sink reach all
//     of these, closed ones among them, unasked; it reaches no other port of its source;
//   - ICMP echo requests (ICMPv6 alike) from the source to the sink and the replies;
//   - what the network itself needs, where the filter sees it: ARP, and on their link those who look for neighbours and
//     those who answer (RFC 4861, sections 4.3 and 4.4); not what a host would forward of that, and nothing that only
//     routers say.
//
// Everything else between containers is dropped, of both families, whether or not they are listed: an IPv4 list must
// not leave IPv6 open. So is what containers send to their host or to another one, to any of its addresses, whatever
// the protocol, the port and the MAC address, except neighbour discovery and ARP, and answers to what the host has
// begun where connection tracking knows them (not with the filter ebpf, which does not see what the host sends). Errors
// of ICMP reach the host as such answers, too. What the host sends to containers is not filtered: its root can enter
// them. Where the filter stands inside the container it drops this, too, and the container's own root can take it away.
// A filter knows senders by the address of a packet: a container can send with the address of another unless addresses
// are bound to links, see [Binding]. Frames that hold neither IPv4, IPv6 nor ARP are dropped at a bridge, a switch and
// on tcx, however many tags of VLANs they have; [Frames] is for filters behind br_netfilter. What an ARP frame says
// nobody reads.
//
// Errors of ICMP pass only where connection tracking knows the flow that they quote, and options of IPv6 hide nothing:
// a filter says what it does with both, see [Errors] and [Extensions].
//
// Decoys are rules or entries of the same form that never match: they make the list as long as one wants to know the
// cost of.
package filter
