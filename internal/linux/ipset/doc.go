// Package ipset makes, changes, compares and destroys sets of the kernel, by the program ipset. What it does, it does
// in the network namespace of the calling thread, which is locked.
package ipset
