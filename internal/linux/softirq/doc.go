// Package softirq reports how long the kernel's softirqs take: a probe adds it up in memory that other processes map
// and read.
//
// The package probe below this one loads the probe into the kernel. A worker only reads, and must be able to start
// without that package.
package softirq
