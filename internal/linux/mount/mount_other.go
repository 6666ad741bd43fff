//go:build !linux

package mount

import "github.com/nettoll/nettoll/internal/linux"

// Remove is not supported here.
func Remove(dir string) error {
	return &linux.UnsupportedError{What: "unmount what is below " + dir, Missing: "Linux"}
}

// Private is not supported here.
func Private(string) error {
	return &linux.UnsupportedError{What: "make mounts private", Missing: "Linux"}
}

// Cover is not supported here.
func Cover(dir, _, _ string) error {
	return &linux.UnsupportedError{What: "cover " + dir, Missing: "Linux"}
}

// Uncover is not supported here.
func Uncover(dir string) error {
	return &linux.UnsupportedError{What: "uncover " + dir, Missing: "Linux"}
}

// ShowSecurity is not supported here.
func ShowSecurity() error {
	return &linux.UnsupportedError{What: "mount securityfs", Missing: "Linux"}
}

// HideSecurity is not supported here.
func HideSecurity() error {
	return &linux.UnsupportedError{What: "unmount securityfs", Missing: "Linux"}
}

// SecurityShown is not supported here.
func SecurityShown() (bool, error) {
	return false, &linux.UnsupportedError{What: "look for securityfs", Missing: "Linux"}
}
