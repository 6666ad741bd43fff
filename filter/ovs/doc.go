// Package ovs is the filter "ovs": an allow-list as OpenFlow flows in the Open vSwitch of the host, by which the
// network "ovs" joins its containers. It stands in table 0, before packets are forwarded in table 10.
//
// A flow matches the two addresses, the protocol and the port of the sink, a range of ports as the fewest masks; the
// source's ports are matched in table 4, and those of what answers in table 5. Without connection tracking what answers
// is matched the other way round, TCP by its flags. With it every packet of IP goes through ct(), the filter decides in
// table 3, packets of known connections pass before all rules, and an allowed first packet is committed. Packets that
// no flow lets through are dropped by the last one, whatever they are: those that containers send to the host among
// them, to whatever MAC address. What the host sends comes from the port LOCAL and passes; with connection tracking it
// is committed, so that its answers pass.
//
// If addresses are bound to ports, table 0 and table 1 compare where a packet comes from, and the list is in table 2.
// What may pass goes on in table 6 instead of 10. There a packet for a container is sent to its port if it has both its
// MAC and its IP address, and one for the MAC address of the host to the host. Other packets of IP are dropped, unless
// they are for a group. So neither the table of learnt addresses nor flooding decides who gets a packet.
//
// Decoys are one flow each, of UDP and of TCP by turns. OpenFlow has no order but priorities: decoy rules before the
// pairs' flows have a higher one, those after a lower. Open vSwitch keeps flows of the same form in a hash table and
// looks into one table for each form, highest priority first, and that only for the first packet of a flow: the
// datapath remembers what was decided. So neither their number nor their place says much of later packets, which is for
// measurements to show.
//
// Fragments: the first of a packet has ports and is matched by them, the others pass by their addresses (nx-match in
// ovs-ofctl(8)). The kernel's datapath puts packets together before it tracks them, and lets no fragment pass alone.
// That of userspace could (dpctl/ipf-set-enabled), and decides datagrams of up to 47,000 bytes rightly with it, but
// hands on only the 32 fragments that its batches hold and keeps the others until another packet is tracked (3.1,
// tried: of 65,507 bytes no answer comes; ipf_send_frags_in_list of lib/ipf.c, NETDEV_MAX_BURST). So there it is
// switched off: fragments pass without connection tracking, and their answers likewise; a conversation that begins with
// one is not known, and answers to it that are not fragments are refused.
//
// The datapath remembers what it has decided of a flow. The daemon looks through that after flows have changed: at
// once, but not more often than every 5 ms (udpif_revalidator of ofproto/ofproto-dpif-upcall.c, 3.1). In between old
// decisions meet new flows. With connection tracking that shows: the first packet of a connection was let through by
// what was remembered, and its answer, or the first packet itself, refused, so that TCP sent it again after a second;
// and a conversation whose rule was taken back committed itself once more, and passed for ever. Steps let the datapath
// forget its decisions therefore (revalidator/purge) when a filter has been applied or undone, and before connections
// of a rule are forgotten that is taken back. When a rule is added the daemon is left to itself, for that is what is
// measured. Between changes nothing is late: of 25,000 connections in 20 s none took 150 ms, nor of 27,000 while
// addresses were forgotten and learnt three times a second.
package ovs
