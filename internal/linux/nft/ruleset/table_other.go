//go:build !linux

package ruleset

import (
	"github.com/nettoll/nettoll/internal/linux"
)

func unsupported() error {
	return &linux.UnsupportedError{What: "use nftables", Missing: "Linux", Hint: "nftables exists only there"}
}

// Add is not supported here.
func Add(Table) error { return unsupported() }

// Delete is not supported here.
func Delete(string, string) error { return unsupported() }

// Commit is not supported here.
func (b *Batch) Commit() ([]Placed, error) { return nil, unsupported() }

// Read is not supported here.
func Read(string, string, string) ([]Found, error) { return nil, unsupported() }

// Compare is not supported here.
func Compare(Table) ([]linux.Difference, error) { return nil, unsupported() }
