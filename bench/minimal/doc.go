// Package minimal makes containers with as few requests to the kernel as possible: what the set-up of a host is
// compared with.
package minimal
