//go:build !linux

package rights

import "github.com/nettoll/nettoll/internal/linux"

// Keep is not supported here.
func Keep(uint64) error {
	return &linux.UnsupportedError{What: "give up capabilities", Missing: "Linux"}
}

func networkOwned() (bool, error) {
	return false, &linux.UnsupportedError{What: "find the owner of the network namespace", Missing: "Linux"}
}
