//go:build !linux

package ipset

import "github.com/nettoll/nettoll/internal/linux"

func unsupported() error {
	return &linux.UnsupportedError{What: "use ipset", Missing: "Linux", Hint: "ipset exists only there"}
}

// Create is not supported here.
func Create(...Set) error { return unsupported() }

// Change is not supported here.
func Change([]string) error { return unsupported() }

// Compare is not supported here.
func Compare(Set) ([]linux.Difference, error) { return nil, unsupported() }

// Destroy is not supported here.
func Destroy(...string) error { return unsupported() }

// Memory is not supported here.
func Memory(string) (int64, error) { return 0, unsupported() }

// Version is not supported here.
func Version() (string, error) { return "", unsupported() }
