//go:build !linux

package probe

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// Probe exists on Linux.
type Probe struct{}

func unsupported() error {
	return &linux.UnsupportedError{What: "load the probe of soft interrupts", Missing: "Linux"}
}

// Load exists on Linux.
func Load() (*Probe, error) { return nil, unsupported() }

// On exists on Linux.
func (*Probe) On() error { return unsupported() }

// Off exists on Linux.
func (*Probe) Off() error { return nil }

// File exists on Linux.
func (*Probe) File() (*os.File, error) { return nil, unsupported() }

// Close exists on Linux.
func (*Probe) Close() error { return nil }
