// Package sysctl reads and writes the variables below /proc/sys. Those below net are the ones of the calling thread's
// network namespace: enter it first.
package sysctl
