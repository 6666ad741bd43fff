// Package worker is the process that drives traffic for containers. It opens their sockets inside their network
// namespaces, gives each pair a locked thread that takes the turns, and returns the samples between
// blocks.
package worker
