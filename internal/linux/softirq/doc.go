// Package softirq knows how long the kernel's softirqs take: a probe sums it up in memory that others map and
// read.
//
// What loads the probe into the kernel is in the package probe below this one: a worker reads only, and must start
// without it.
package softirq
