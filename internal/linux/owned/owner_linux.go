package owned

import (
	"io/fs"
	"syscall"
)

// owner returns the number of the user that owns a file; -1 if the file system does not report it.
func owner(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// group returns the group of a file.
func group(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Gid)
	}
	return -1
}
