//go:build !linux

package sock

import "os"

// Frames is not supported here.
func Frames(int) (*os.File, error) { return nil, unsupported("open a packet socket") }
