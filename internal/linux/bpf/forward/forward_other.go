//go:build !linux

package forward

import "github.com/nettoll/nettoll/internal/linux"

func unsupported() error {
	return &linux.UnsupportedError{What: "forward by eBPF", Missing: "Linux"}
}

// Add is not supported here.
func Add(Table) (remove func() error, err error) { return nil, unsupported() }

// Compare is not supported here.
func Compare(Table) ([]Difference, error) { return nil, unsupported() }

// Check is not supported here.
func Check(string) error { return unsupported() }
