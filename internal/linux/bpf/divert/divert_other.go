//go:build !linux

package divert

import (
	"io"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
)

func unsupported() error {
	return &linux.UnsupportedError{What: "divert packets by eBPF", Missing: "Linux"}
}

// Add is not supported here.
func Add(Tunnel) ([]bpf.Attachment, io.Closer, error) { return nil, nil, unsupported() }

// Compare is not supported here.
func Compare(Tunnel) ([]linux.Difference, error) { return nil, unsupported() }

// Check is not supported here.
func Check() error { return unsupported() }
