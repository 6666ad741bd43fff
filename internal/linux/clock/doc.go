// Package clock reads the kernel's monotonic clock at the lowest cost, for hot loops and for times that processes
// share.
package clock
