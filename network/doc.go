// Package network holds the kind of part that joins containers to their host: what a network is asked to join ([Lab])
// and what it answers with (plans for the hosts and the addresses of the containers). Each folder below is one network.
//
// It also holds what is between hosts, which no network makes itself: the underlay, the spans that carriers make on it
// ([Span], [Carrier]), and the routes through the uppermost one to whatever a network serves on each host ([Routes]).
//
// Everything here is pure: nothing touches a kernel before a host applies a plan.
//
//	            underlay
//	  ┌──────────[under]──────────┐          bridge, 198.18.0.H/16, fd00:198:18::H/48
//	 up0                         up0         one veth for each host
//	┌─┴───────────┐     ┌─────────┴───┐
//	│ host 1      │     │ host 2      │      10.H.0.0/16, fd00:10:H::/64
//	│ src0 src1 … │     │ snk0 snk1 … │      container i: 10.H.1.0+i, fd00:10:H::1:0+i
//	└─────────────┘     └─────────────┘
//
// With a router in place of the bridge ([Medium.Routers]), host H is 198.18.H.2/24 and fd00:198:18:H::2/64
// ([RoutedAddr]). With a router for each host, one or two bridges join the routers:
//
//	up0 ── host1 [edge1] r1 ── down0 router1 up0 ── p0r1 [path0] p0r2 ── up0 router2 down0 ── r2 [edge2] host2 ── up0
//	                                        up1 ── p1r1 [path1] p1r2 ── up1
//
// Containers that are neighbours of the hosts on the underlay have addresses of its range instead: 198.18.H.i,
// fd00:198:18::H:i ([SegmentAddr]).
//
// An IPv6 address shows a host's number as its decimal digits: host 10 has fd00:10:10::/64.
package network
