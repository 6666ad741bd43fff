//go:build !linux

package idle

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// Hold is not supported here.
func Hold() (*os.File, error) { return nil, &linux.UnsupportedError{What: keep, Missing: "Linux"} }

// Settle is not supported here.
func Settle([]int) error { return &linux.UnsupportedError{What: "let CPUs sleep", Missing: "Linux"} }
