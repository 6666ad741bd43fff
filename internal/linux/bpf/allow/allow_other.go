//go:build !linux

package allow

import "github.com/nettoll/nettoll/internal/linux"

func unsupported() error {
	return &linux.UnsupportedError{What: "filter by eBPF", Missing: "Linux"}
}

// Add is not supported here.
func Add(List) (remove func() error, err error) { return nil, unsupported() }

// Compare is not supported here.
func Compare(List) ([]Difference, error) { return nil, unsupported() }

// Change is not supported here.
func Change(List, Rule, bool) error { return unsupported() }

// Read is not supported here.
func Read(List) (Counters, error) { return Counters{}, unsupported() }

// Memory is not supported here.
func Memory(List) (int64, error) { return 0, unsupported() }

// Check is not supported here.
func Check(string, bool) error { return unsupported() }
