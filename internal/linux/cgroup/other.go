//go:build !linux

package cgroup

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// Unified is the hierarchy of cgroup v2.
type Unified struct{}

func unsupported(what string) error { return &linux.UnsupportedError{What: what, Missing: "Linux"} }

// OpenUnified is not supported here.
func OpenUnified() (*Unified, error) {
	return nil, unsupported("open the hierarchy of cgroup v2")
}

// Open is not supported here.
func (*Unified) Open(string) (*os.File, error) { return nil, unsupported("open a cgroup") }

// Close does nothing.
func (*Unified) Close() error { return nil }

// InUnified lists nothing.
func InUnified(...int) []string { return nil }
