//go:build !linux

package softirq

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// Map exists on Linux.
func Map(*os.File, int) (*Times, error) {
	return nil, &linux.UnsupportedError{What: "map the times of softirqs", Missing: "Linux"}
}

// Close exists on Linux.
func (t *Times) Close() error { return nil }
