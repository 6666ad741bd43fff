// Package pulse measures for a test how long the CPUs of its machine did not run.
//
// If a hypervisor is slow to run a CPU that had gone to sleep, the kernel's accounts do not show it: nothing was ready
// to run, and steal does not change. On shared machines such a CPU wakes up to 30 ms late. So a separate process has a
// thread on each CPU that runs before all others (SCHED_FIFO) and sleeps for short times, over and over. If a sleep
// takes longer, its CPU did not run in the extra time.
package pulse
