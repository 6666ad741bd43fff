// Package forward holds the programs that forward packets for containers, on tcx, on a classifier of tc, on netkit or
// in XDP, with the maps of destinations. [Add] loads and hooks them, and [Compare] compares them with the kernel.
//
// The programs are in forward.c. Their objects, one for each byte order, are part of the tree, so that building needs
// no eBPF compiler; `make generate` compiles them again. The programs do not depend on the kernel's own structures.
package forward
