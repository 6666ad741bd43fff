//go:build !linux

package allow

import (
	"io"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
)

func unsupported() error {
	return &linux.UnsupportedError{What: "filter by eBPF", Missing: "Linux"}
}

// Add is not supported here.
func Add(List) ([]bpf.Attachment, io.Closer, error) { return nil, nil, unsupported() }

// Compare is not supported here.
func Compare(List) ([]linux.Difference, error) { return nil, unsupported() }

// UpdateRule is not supported here.
func UpdateRule(List, Rule, bool) error { return unsupported() }

// Read is not supported here.
func Read(List) (Counters, error) { return Counters{}, unsupported() }

// Flows is not supported here.
func Flows(List) ([]conntrack.Flow, error) { return nil, unsupported() }

// Memory is not supported here.
func Memory(List) (int64, error) { return 0, unsupported() }

// Check is not supported here.
func Check(string, bool, bool) error { return unsupported() }
