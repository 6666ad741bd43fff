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
// The program is in allow.c. Its objects, one for each byte order, are part of the tree; `make generate` compiles them
// again.
package allow
