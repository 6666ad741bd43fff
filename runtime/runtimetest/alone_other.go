//go:build !linux

package runtimetest

// Alone does nothing here: no runtime starts a daemon.
func Alone() {}
