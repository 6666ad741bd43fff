// Package thread binds the calling thread to CPUs, reads its run time, and keeps other threads from disturbing it.
package thread
