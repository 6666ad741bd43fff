// Package procfs reads facts about the machine, its processes and the state of its CPUs from /proc.
package procfs
