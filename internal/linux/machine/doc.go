// Package machine looks at a machine as somebody does who wants steady results: its CPUs, how they are clocked and
// shared, what else runs, and the limits of its kernel. It reads files only, and says so where they do not tell.
package machine
