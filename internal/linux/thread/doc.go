// Package thread places the calling thread on a CPU, reads its run time and keeps other threads out of its way.
package thread
