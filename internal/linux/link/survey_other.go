//go:build !linux

package link

import "os"

// Survey is not supported here.
func (*Handle) Survey() (Survey, error) { return Survey{}, unsupported() }

// ID is not supported here.
func (*Handle) ID(*os.File) (int, error) { return 0, unsupported() }

// Isolated is unsupported here.
func (*Handle) Isolated(int) (bool, error) { return false, unsupported() }
