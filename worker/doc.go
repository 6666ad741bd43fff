// Package worker is the process that drives traffic for containers: it opens their sockets inside their network
// namespaces, gives each pair a locked thread that takes the turns of the board, and hands over the samples between
// blocks.
package worker
