// Package nat is the network "nat": a bridge on each host as in the network "bridge", whose containers other hosts know
// by the host's address alone. No host has a route to the containers of another.
//
//	 src0  10.1.1.0                          snk0  10.2.1.0
//	 eth0                                    eth0
//	  │                                       │
//	vsrc0                                   vsnk0
//	[br0]  10.1.0.1                         [br0]  10.2.0.1
//	  ┆ source 10.1.1.0 → 198.18.0.1          ┆ destination 198.18.0.2 → 10.2.1.0, by the port
//	 up0 ─────────────── underlay ────────── up0
//
// The source of a packet that leaves is masked by the address of its host; the sink is reached at the address of its
// host, where nftables looks up the port among those that containers have published (destination NAT). Ports stay what
// they are: those of the containers of a host do not overlap, so that two never meet behind one address. Every packet
// passes connection tracking and the host's IP layer.
//
// On one host packets between containers are bridged and nothing is translated, which is the network "bridge". With
// hairpin=true the sinks of a lab of one host are reached at the address of the bridge and their published ports, and
// sources masked by the same address: packets are translated both ways and turn round in the host's IP layer; the ports
// of the bridge are isolated from each other, so that there is no way past it. Elsewhere hairpin changes nothing, as
// containers of other hosts are always translated.
package nat
