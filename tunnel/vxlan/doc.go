// Package vxlan is the tunnel "vxlan": a VXLAN device of the kernel on each host (RFC 7348).
//
//	host1                                   host2
//	vxlan0 198.19.1.1/24                    vxlan0 198.19.1.2/24
//	   |    fd00:198:19:1::1/64                |    fd00:198:19:1::2/64
//	   |    MAC address from the seed          |
//	up0 198.18.0.1 ===== UDP port 4789 ===== up0 198.18.0.2
//
// Nothing is learned and nothing is flooded: each host has permanent neighbour entries for the devices of the others.
// How a device knows behind which host another one is depends on the parameter peers:
//
//   - peers=fdb: from permanent entries in its forwarding database, one for each other device.
//   - peers=routes: the device is external. Each route to another host says where its packets go (encap).
//
// With impl=ovs, and with impl=auto and peers=fdb where the kernel has no such devices, vxlan0 is a veth to Open
// vSwitch, which has a port for each other host (package ovstunnel). Its outer packets have a UDP checksum over IPv6 in
// any case.
//
// The devices believe whoever reaches their port (RFC 7348, section 7): a container that can send to the address of
// another host can send frames to its containers in the name of anybody. A filter prevents that, because containers
// cannot reach hosts then; so does an encryption below. External devices take packets of every identifier.
//
// With checksum=on the packets between the hosts have a UDP checksum. It is left to the link below, as any other: links
// between namespaces need none and leave it out.
package vxlan
