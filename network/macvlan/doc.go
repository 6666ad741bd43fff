// Package macvlan is the network "macvlan": each container has a macvlan link, so that all containers of all hosts are
// neighbours on the underlay, each with a MAC address of its own there. Nothing is bridged or routed on the way: the
// link below hands what it receives to the link of that MAC address.
//
//	src0          src1                      snk0
//	eth0          eth0     198.18.1.1/16    eth0      198.18.2.0/16
//	 ┆             ┆                         ┆
//	 └┄┄┄┄[up0]┄┄┄┄┘       198.18.0.1/16   [up0]      198.18.0.2/16
//	        └───────── underlay ─────────────┘
//
// The mode says how containers of one host reach each other; those of others they reach by the underlay in every mode.
// In mode bridge the link below hands packets over directly. In mode vepa every packet leaves by it, and a switch
// outside has to send it back (IEEE 802.1Qbg, reflective relay). In mode private they do not reach each other. In mode
// passthru each link below has one container, whose MAC address is its own: here each container has a link to the
// switch, and that brings packets from one to the other.
//
// A lab of one host has no uplink, and a macvlan needs a link below it that is not the loopback link and has a carrier.
// LXC and Docker take a physical NIC, or a dummy. Here it is one end of a veth, lower0, whose other end lies idle on
// the same host: kernels without a dummy have it, and it makes no difference, as in mode bridge a packet from one
// container to another never gets there (drivers/net/macvlan.c, macvlan_queue_xmit); only broadcasts and multicasts do,
// and end there. In mode vepa the other end is a port of a bridge, sw0, that sends packets back through it (hairpin);
// in mode passthru sw0 has a port for each container.
//
// A container and its own host do not reach each other; that is so with every macvlan.
package macvlan
