//go:build !linux

package shm

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

func unsupported(what string) error {
	return &linux.UnsupportedError{What: what, Missing: "Linux", Hint: "memory files exist only there"}
}

// Create is not supported here.
func Create(string, int) (*os.File, error) { return nil, unsupported("create shared memory") }

// Map is not supported here.
func Map(*os.File) ([]byte, error) { return nil, unsupported("map shared memory") }

// Unmap is not supported here.
func Unmap([]byte) error { return unsupported("unmap shared memory") }
