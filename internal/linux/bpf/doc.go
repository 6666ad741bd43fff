// Package bpf hooks eBPF programs to network links, and finds again what is hooked to them. The programs themselves,
// with their maps, are in the folders below, a folder for each C source; apart from the softirq probe these
// are all that import the loader. `make generate` compiles them by bpf2go into object_bpf… beside the source, which are
// part of the tree, and `make generate-check` shows that they are what the source makes.
//
// Several programs can be on one hook, such as one that filters before one that forwards. Those that decide come first
// ([Links.Attach] with first). They leave packets that they do not refuse to the next one (TCX_NEXT).
package bpf
