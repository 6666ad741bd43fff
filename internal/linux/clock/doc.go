// Package clock reads the kernel's monotonic clock the cheapest way there is, for hot loops and for times that
// processes share.
package clock
