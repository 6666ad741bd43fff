// Package allow is the program that decides on tcx which packets of containers may pass, with the maps of its list:
// [Add] loads and hooks it, [UpdateRule] changes the list under it, [Compare] says what the kernel has of it, [Read]
// what it has counted.
//
// One program stands at the ingress of all links of containers and of the uplink, before whatever else is hooked there.
// What it lets pass it leaves to the next. What it does not decide: ARP, neighbour discovery, and what is sent to an
// address of the host at the address of one of its links, by the host's addresses when it was loaded.
//
// The program is in allow.c. Its objects, one for each byte order, are part of the tree; `make generate` makes them
// anew.
package allow
