// Package pulse tells a test for how long the CPUs of its machine did not run at all.
//
// A hypervisor that is slow to run a CPU which had gone to sleep takes no time from it by the kernel's accounts:
// nothing was ready to run, and steal stays as it was. On shared machines such a CPU wakes up to 30 ms late. So a
// process of its own has a thread on each CPU that runs before all others (SCHED_FIFO) and that sleeps shortly, over
// and over: what a sleep takes beyond that, its CPU did nothing for anybody.
package pulse
