//go:build !linux

package forward

import (
	"io"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
)

func unsupported() error {
	return &linux.UnsupportedError{What: "forward by eBPF", Missing: "Linux"}
}

// Add is not supported here.
func Add(Table) ([]bpf.Attachment, io.Closer, error) { return nil, nil, unsupported() }

// Compare is not supported here.
func Compare(Table) ([]linux.Difference, error) { return nil, unsupported() }

// Forwarded is not supported here.
func Forwarded(Table) (n uint64, ok bool, err error) { return 0, false, unsupported() }

// Check is not supported here.
func Check(string) error { return unsupported() }
