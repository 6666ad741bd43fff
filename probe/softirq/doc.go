// Package softirq is the probe softirq: how long the softirqs of the network take, whichever thread they interrupt.
//
// Two eBPF programs on the tracepoints irq:softirq_entry and irq:softirq_exit sum up the time between the two, for each
// CPU (internal/linux/softirq). docs/method.md says what the figure includes and what it does not.
package softirq
