// Package procfs reads from /proc what the machine is and what its CPUs do.
package procfs
