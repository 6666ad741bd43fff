//go:build !linux

package sock

import "os"

// Frames is not supported here.
func Frames(int) (*os.File, error) { return nil, unsupported("open a packet socket") }

// Missed is not supported here.
func Missed(*os.File) (int, error) { return 0, unsupported("read a packet socket") }
