// Package bpf hooks eBPF programs to network links, and finds again what is hooked to them. The programs themselves, with their maps, are in the folders below; apart from the
// probe of soft interrupts these are all that import the loader.
package bpf
