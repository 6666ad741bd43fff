//go:build !linux

package userns

import "github.com/nettoll/nettoll/internal/linux"

// Missing is not supported here.
func Missing() ([]string, error) {
	return nil, &linux.UnsupportedError{
		What: "read own capabilities", Missing: "Linux", Hint: "hosts on this machine exist only there",
	}
}

// Inside is false here.
func Inside() bool { return false }

// Refused returns nothing here.
func Refused() []string { return nil }
