//go:build !linux

package owned

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// HoldSocket is not supported here.
func HoldSocket(string) (*os.File, string, error) {
	return nil, "", &linux.UnsupportedError{What: "hold a socket", Missing: "Linux"}
}
