//go:build !linux

package probe

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// Counter exists on Linux.
type Counter struct{}

func unsupported() error {
	return &linux.UnsupportedError{What: "load the softirq probe", Missing: "Linux"}
}

// Load exists on Linux.
func Load() (*Counter, error) { return nil, unsupported() }

// On exists on Linux.
func (*Counter) On() error { return unsupported() }

// Off exists on Linux.
func (*Counter) Off() error { return nil }

// File exists on Linux.
func (*Counter) File() (*os.File, error) { return nil, unsupported() }

// Close exists on Linux.
func (*Counter) Close() error { return nil }
