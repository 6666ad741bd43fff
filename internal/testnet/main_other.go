//go:build !linux

package testnet

import (
	"os"
	"testing"
)

// Main runs the tests of a package and exits.
func Main(m *testing.M) { os.Exit(m.Run()) }
