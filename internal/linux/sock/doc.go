// Package sock opens, configures and drives sockets with raw system calls: only what a measuring loop needs.
package sock
