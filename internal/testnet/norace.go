//go:build !race

package testnet

// Race reports whether the race detector is on.
const Race = false
