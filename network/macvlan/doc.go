// Package macvlan is the network "macvlan": each container has a macvlan link in mode bridge, so that all containers of all hosts are neighbours
// on the underlay, each with a MAC address of its own there. Nothing is bridged or routed on the way: the link below hands what it receives to
// the link of that MAC address.
//
//	src0          src1                      snk0
//	eth0          eth0     198.18.1.1/16    eth0      198.18.2.0/16
//	 ┆             ┆                         ┆
//	 └┄┄┄┄[up0]┄┄┄┄┘       198.18.0.1/16   [up0]      198.18.0.2/16
//	        └───────── underlay ─────────────┘
//
// A lab of one host has no uplink, and a macvlan needs a link below it that is not the loopback link and has a carrier. LXC and Docker take a
// physical NIC, or a dummy. Here it is one end of a veth, lower0, whose other end lies idle on the same host: kernels without a dummy have it, and it makes no
// difference, as in mode bridge a packet from one container to another never gets there (drivers/net/macvlan.c, macvlan_queue_xmit); only
// broadcasts and multicasts do, and end there.
//
// A container and its own host do not reach each other; that is so with every macvlan.
package macvlan
