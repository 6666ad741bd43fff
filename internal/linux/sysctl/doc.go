// Package sysctl reads and writes the variables below /proc/sys. Variables below net belong to the calling thread's
// network namespace: enter it first.
package sysctl
