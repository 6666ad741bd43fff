//go:build !linux

package runtime

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nettoll/nettoll/internal/linux"
)

// profile is not supported here.
func profile([]string) (*specs.LinuxSeccomp, error) {
	return nil, &linux.UnsupportedError{What: "filter system calls", Missing: "Linux"}
}
