//go:build !linux

package procfs

// uname knows no other kernel.
func uname() (release, build string) { return "", "" }
