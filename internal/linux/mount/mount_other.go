//go:build !linux

package mount

import "github.com/nettoll/nettoll/internal/linux"

// Remove is not supported here.
func Remove(dir string) error {
	return &linux.UnsupportedError{What: "unmount what is below " + dir, Missing: "Linux"}
}
