// Package dump lists what the kernel has, whole, by netlink.
package dump
