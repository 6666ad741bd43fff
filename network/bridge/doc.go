// Package bridge is the network "bridge": a Linux bridge on each host, of which every container's veth is a port. The
// bridge has the containers' gateway; across hosts the hosts forward, by a direct route to the range of each other
// host's containers.
//
//	 src0          src1                      snk0
//	 eth0          eth0     10.1.1.1/16      eth0      10.2.1.0/16
//	  │             │                         │
//	vsrc0         vsrc1                     vsnk0
//	  └─────[br0]───┘       10.1.0.1/16     [br0]      10.2.0.1/16
//	         up0 ─────── underlay ─────────  up0
package bridge
