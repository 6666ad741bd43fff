//go:build !linux

package procfs

// uname is not supported here.
func uname() (release, build string) { return "", "" }
