// Package sock opens, tunes and drives sockets by raw system calls: what a measuring loop needs and nothing else.
package sock
