//go:build !race

package testnet

// Race says whether the race detector is on.
const Race = false
