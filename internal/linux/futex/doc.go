// Package futex waits for and wakes threads on a 32-bit word that processes share.
package futex
