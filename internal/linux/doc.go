// Package linux and its children are the only packages that import the kernel's interfaces. This folder itself holds
// the error about what a kernel lacks.
package linux
