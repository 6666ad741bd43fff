package rooted

import (
	"fmt"
	"os"
	"path/filepath"
)

// Path returns a path at which this process, and those that it starts, find what is at a path below an open root
// directory. No part of the path may be a symbolic link. The path is valid while the directory is open.
func Path(root *os.File, path string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), root.Fd()), path)
}
