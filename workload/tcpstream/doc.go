// Package tcpstream is the workload tcp-stream: a connection per pair that carries as many bytes as it can; what counts is what the
// sink has read.
package tcpstream
