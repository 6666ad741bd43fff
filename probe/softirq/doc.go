// Package softirq is the probe softirq: how long the softirqs of the network take, whoever they interrupt.
//
// Two eBPF programs on the tracepoints irq:softirq_entry and irq:softirq_exit sum up the time between the two, for each
// CPU (internal/linux/softirq). docs/method.md says what is in the figure and what is not.
package softirq
