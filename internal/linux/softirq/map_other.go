//go:build !linux

package softirq

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// Map is not supported here.
func Map(*os.File, int) (*Times, error) {
	return nil, &linux.UnsupportedError{What: "map the times of softirqs", Missing: "Linux"}
}

// Close does nothing here.
func (t *Times) Close() error { return nil }
