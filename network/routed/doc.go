// Package routed is the network "routed": a veth to every container and no bridge; the host has a route to each
// container's address, and forwards between them as between hosts. It is how Calico joins pods.
//
//	 src0          src1                        snk0
//	 eth0          eth0     10.1.1.1/32        eth0      10.2.1.0/32
//	  │             │       default via         │
//	  │             │       169.254.1.1         │
//	vsrc0         vsrc1                       vsnk0
//	  10.1.1.0/32   10.1.1.1/32                 10.2.1.0/32
//	         up0 ──────── underlay ──────────  up0
//
// A container has no neighbour but its gateway, which no link has an address of. With gateway=link-local, Calico's
// choice, it is the same everywhere: 169.254.1.1, for which the host answers by proxy ARP, and
// fe80::ecee:eeff:feee:eeee, which every host's end has as a further address (Calico gives it the MAC address
// ee:ee:ee:ee:ee:ee, from which the kernel makes this one). With gateway=proxy-arp it is the first address of the
// host's range, and the host answers by proxy ARP and proxy NDP.
//
// A host answers by proxy ARP for what it would send elsewhere (net/ipv4/arp.c, arp_process). On the hosts of others
// that is the default route; here it is a route for the gateway alone, to the loopback link.
package routed
