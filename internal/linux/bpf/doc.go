// Package bpf hooks eBPF programs to network links, and finds hooked programs again. The programs themselves, with
// their maps, are in the folders below, one folder for each C source. Apart from the softirq probe, only these packages
// import the loader. `make generate` compiles the programs with bpf2go into object_bpf… next to the source. These
// objects are part of the tree, and `make generate-check` checks that they match the source.
//
// Several programs can be on one hook, such as one that filters before one that forwards. Programs that decide come
// first ([Links.Attach] with first). They pass packets that they do not refuse to the next program (TCX_NEXT).
package bpf
