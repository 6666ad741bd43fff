//go:build !linux

package nft

import "github.com/nettoll/nettoll/internal/linux"

func unsupported() error {
	return &linux.UnsupportedError{What: "use nftables", Missing: "Linux", Hint: "nftables exists only there"}
}

// Add is not supported here.
func Add(Table) error { return unsupported() }

// Delete is not supported here.
func Delete(string) error { return unsupported() }

// List is not supported here.
func List() ([]string, error) { return nil, unsupported() }

// Compare is not supported here.
func Compare(Table) ([]linux.Difference, error) { return nil, unsupported() }

// Contents is not supported here.
func Contents() (map[string]map[string]int, error) { return nil, unsupported() }

// Drop is not supported here.
func Drop(string) error { return unsupported() }
