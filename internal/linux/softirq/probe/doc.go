// Package probe has the kernel sum up how long its softirqs take: two eBPF programs on the tracepoints
// irq:softirq_entry and irq:softirq_exit.
//
// It is apart from what reads the sums so that a worker starts without the eBPF loader.
package probe
