//go:build !linux

package ethtool

import "github.com/nettoll/nettoll/internal/linux"

func unsupported() error {
	return &linux.UnsupportedError{What: "read offloads", Missing: "Linux", Hint: "ethtool exists only there"}
}

// Get is not supported here.
func Get(string, Offload) (bool, error) { return false, unsupported() }

// Set is not supported here.
func Set(string, Offload, bool) error { return unsupported() }
