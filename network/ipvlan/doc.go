// Package ipvlan is the network "ipvlan": each container has an ipvlan link on its host's uplink. All of them have the
// MAC address of that; what comes is handed to the link that has its IP address.
//
//	src0          src1                      snk0
//	eth0          eth0                      eth0
//	 ┆             ┆                         ┆
//	 └┄┄┄┄[up0]┄┄┄┄┘       198.18.0.1/16   [up0]      198.18.0.2/16
//	        └───────── underlay ─────────────┘
//
// In mode l2 containers are neighbours of the hosts on the underlay (198.18.1.0/16), as with macvlan. In modes l3 and
// l3s they have addresses of their host's range (10.1.1.0/32) and no neighbours: what they send to other hosts is
// routed in their host's namespace, and passes its netfilter on the way out (drivers/net/ipvlan/ipvlan_core.c,
// ipvlan_process_outbound). Between containers of one host a packet goes straight from link to link in every mode
// (ipvlan_core.c, ipvlan_xmit_mode_l3 and ipvlan_xmit_mode_l2), where nobody but they can filter it: that is why it is
// inside the containers that a filter has to be in every mode.
//
// In mode l3s what comes from other hosts passes the INPUT of the host, and not that of the container (ipvlan_l3s.c,
// ipvlan_l3_rcv and ipvlan_nf_input). So there is no filter in labs of several hosts.
//
// A lab of one host has no uplink: the link below is one end of a veth, as with macvlan. A container and its own host
// do not reach each other.
package ipvlan
