// Package bridge is the network "bridge": a Linux bridge on each host, whose ports are the containers' veths. The
// bridge has the containers' gateway. Between hosts, the hosts forward: each has a direct route to the containers of
// each other host.
//
//	 src0          src1                      snk0
//	 eth0          eth0     10.1.1.1/16      eth0      10.2.1.0/16
//	  │             │                         │
//	vsrc0         vsrc1                     vsnk0
//	  └─────[br0]───┘       10.1.0.1/16     [br0]      10.2.0.1/16
//	         up0 ─────── underlay ─────────  up0
package bridge
