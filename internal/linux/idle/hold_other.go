//go:build !linux

package idle

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// Hold exists on Linux.
func Hold() (*os.File, error) { return nil, &linux.UnsupportedError{What: keep, Missing: "Linux"} }

// Settle exists on Linux.
func Settle([]int) error { return &linux.UnsupportedError{What: "let CPUs sleep", Missing: "Linux"} }
