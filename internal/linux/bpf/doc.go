// Package bpf hooks eBPF programs to network links, and finds again what is hooked to them. The programs themselves,
// with their maps, are in the folders below, a folder for each C source; apart from the softirq probe these
// are all that import the loader. `make generate` compiles them by bpf2go into object_bpf… beside the source, which are
// part of the tree, and `make generate-check` shows that they are what the source makes.
//
// Where several programs are on one hook, as one that filters before one that forwards, those that decide come first
// ([Links.Attach] with first), and what they do not refuse they leave to the next (TCX_NEXT).
package bpf
