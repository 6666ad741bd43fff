//go:build !linux

package rooted

import (
	"fmt"
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// Resolve is not supported here.
func Resolve(_ *os.File, path string) (string, error) {
	return "", &linux.UnsupportedError{What: fmt.Sprintf("find %q on the machine", path), Missing: "Linux"}
}
