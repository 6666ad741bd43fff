// Package forward is the programs that forward for containers, on tcx, on a classifier of tc, on netkit or in XDP, with
// the maps that tell them where to: [Add] loads and hooks them, [Compare] says what the kernel has of that.
//
// The programs are in forward.c. Their objects, one for each byte order, are part of the tree, so that building needs
// no compiler for eBPF; `make generate` makes them anew. Nothing in them depends on the kernel's own structures.
package forward
