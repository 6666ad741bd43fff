// Package allow is the tcx program that decides which packets of containers may pass, with the maps of its list. [Add]
// loads and hooks it, [UpdateRule] changes its list, [Compare] compares it with the kernel, and [Read] returns its
// counters.
//
// One program stands at the ingress of all links of containers and of those by which packets of other hosts arrive,
// before whatever else is hooked there. On links without Ethernet frames, such as those of tunnels of layer 3, it is
// another, with the same maps. Packets that it lets pass go on to the next program. It does not decide ARP, neighbour
// discovery, and packets to an address of the host with the MAC address of one of its links, where such packets may
// arrive. It knows the addresses that the host had when it was loaded.
//
// If addresses are bound to links, a third program with the same maps stands at the egress of the links of containers.
// It refuses packets that are for another MAC or IP address than those of the link, which a bridge would pass on.
//
// The programs are in allow.c. Their objects, one for each byte order, are part of the tree; `make generate` compiles
// them again.
package allow
