// Package overlay is the network "overlay": the containers of all hosts are neighbours on one Ethernet segment, which
// VXLAN (RFC 7348) extends from host to host. It is the network that Docker calls so, and Docker builds it with
// by=docker.
//
//	src0  host1                             host2  snk0
//	eth0 10.1.1.0/8                  10.2.1.0/8  eth0
//	 │    fd00:10:1::1:0/32   fd00:10:2::1:0/32    │
//	┌┼─────────── overlay ──┐ ┌── overlay ─────────┼┐
//	│vsrc0──[br0]──vxlan0   │ │   vxlan0──[br0]──vsnk0│
//	└─────────────────┼─────┘ └────┼────────────────┘
//	      up0 198.18.0.1 == UDP port 4789 == up0 198.18.0.2
//
// Bridge and device are in a namespace of their own on each host, here with the name overlay. The packets of the device
// leave by the host's own namespace, into which no container has a way: it forwards nothing, and containers have no
// default route.
//
// Nothing is flooded from host to host. Each device has a permanent forwarding entry for each container of another
// host, and answers for its addresses itself (ARP, neighbour solicitations). With by=docker the daemons tell each other
// what these entries are, and their devices also learn.
//
// The network takes packets to other hosts itself (network.Crosser): an encryption or a tunnel of a stack stands below
// it.
package overlay
