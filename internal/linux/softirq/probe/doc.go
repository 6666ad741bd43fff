// Package probe makes the kernel add up how long its softirqs take, with two eBPF programs on the tracepoints
// irq:softirq_entry and irq:softirq_exit.
//
// It is separate from the code that reads the sums, so that a worker starts without the eBPF loader.
package probe
