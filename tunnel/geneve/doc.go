// Package geneve is the tunnel "geneve": a GENEVE device of the kernel on each host (RFC 8926), without options.
//
//	host1                                   host2
//	geneve0 198.19.1.1/24                   geneve0 198.19.1.2/24
//	   |     fd00:198:19:1::1/64               |     fd00:198:19:1::2/64
//	   |     MAC address from the seed         |
//	up0 198.18.0.1 ===== UDP port 6081 ===== up0 198.18.0.2
//
// The devices are external: a device of GENEVE has no forwarding entries, and one that is not external has a single
// peer. Each route to another host says where its packets go (encap). Each host has permanent neighbour entries for the
// devices of the others, so that nothing is learned and nothing is flooded.
//
// With impl=ovs, and with impl=auto where the kernel has no such devices, geneve0 is a veth to Open vSwitch, which has
// a port for each other host (package ovstunnel). It pays no attention to what routes say, and takes frames only from
// the addresses and with the identifier of the lab. Its outer packets have a UDP checksum over IPv6 in any case.
//
// The devices of the kernel believe whoever reaches their port, with every identifier (RFC 8926, section 6): a
// container that can send to the address of another host can send frames to its containers in the name of anybody. A
// filter prevents that, because containers cannot reach hosts then; so does an encryption below.
package geneve
