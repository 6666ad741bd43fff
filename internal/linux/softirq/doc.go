// Package softirq knows how long the kernel's softirqs take: a probe sums it up in memory that others map and
// read.
//
// The package probe below this one loads the probe into the kernel. A worker only reads, and must start without that.
package softirq
