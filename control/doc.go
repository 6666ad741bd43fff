// Package control is the second layer, with SeCoNetBench's five roles as files: the configurator builds and removes
// labs, the scheduler decides what happens when, the workload control makes trials happen, the performance monitor
// watches the machine, and the result aggregator keeps what was found.
package control
