// Command cilium is the programs of the network Cilium, in one: its agent, which loads eBPF programs on its node, and
// its CNI plugin. Its name, or its first argument, says which one.
//
// It is a module of its own, so that nothing of Cilium is among what nettoll depends on. Package testkube builds and
// starts it.
package main
