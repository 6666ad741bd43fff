// Package linux and its children are the only importers of the kernel's interfaces; this folder itself
// holds the error that says what a kernel cannot do.
package linux
