// Package cni is the network "cni": plugins of the Container Network Interface (CNI) join the containers, called as
// container runtimes call them: ADD when a lab is built, CHECK when it is verified, DEL when it is removed. The
// configuration is one that this package writes, or the user's own.
//
// With plugin=bridge it looks like the network "bridge", and with plugin=ptp like "routed":
//
//	 src0          src1                      src0          src1
//	 eth0          eth0     10.1.1.1/16      eth0          eth0     10.1.1.1/16
//	  │             │                         │             │
//	vsrc0         vsrc1                     vsrc0         vsrc1    10.1.0.1/32
//	  └─────[br0]───┘       10.1.0.1/16       ╎             ╎       10.1.1.1/32
//
// With plugin=tap each container has a TAP device. A process of nettoll, the [Relay], moves its frames to another one,
// a port of a bridge as above.
//
// With plugin=macvlan and ipvlan the containers are on the underlay, as in the networks of these names. With
// plugin=host-device each container gets a port of the underlay's switch, and with plugin=vlan a VLAN on one.
//
// A plan knows addresses, names and MAC addresses beforehand, and plugins choose names and MAC addresses by chance. So
// nettoll takes part in each chain of plugins, behind the first one: it gives the links their names, MAC addresses and
// MTU of the plan, and notes that in the result for the plugins behind, as the plugin "tuning" does. The IPAM plugin is
// asked for the addresses of the plan.
//
// Everything that plugins and library keep is below the run directory of the host, not in /var/lib/cni.
package cni
