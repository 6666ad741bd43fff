//go:build !linux

package owned

import (
	"io/fs"
	"os"
)

// owner takes every file for the user's: nothing is built here.
func owner(fs.FileInfo) int { return os.Geteuid() }
