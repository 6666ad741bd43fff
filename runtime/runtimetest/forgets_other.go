//go:build !linux

package runtimetest

import "testing"

// forgets has no meaning here: nothing has a worker in a container.
func forgets(*testing.T) bool { return false }
