//go:build !linux

package runtimetest

// startAgain does nothing here: no runtime starts a daemon.
func startAgain() {}
