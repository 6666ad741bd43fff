//go:build !linux

package probe

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// Counter does nothing here.
type Counter struct{}

func unsupported() error {
	return &linux.UnsupportedError{What: "load the softirq probe", Missing: "Linux"}
}

// Load is not supported here.
func Load() (*Counter, error) { return nil, unsupported() }

// On is not supported here.
func (*Counter) On() error { return unsupported() }

// Off does nothing here.
func (*Counter) Off() error { return nil }

// File is not supported here.
func (*Counter) File() (*os.File, error) { return nil, unsupported() }

// Close does nothing here.
func (*Counter) Close() error { return nil }
