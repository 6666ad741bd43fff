//go:build !linux

package bpf

import "github.com/nettoll/nettoll/internal/linux"

// Detach is not supported here.
func Detach([]Attachment) error {
	return &linux.UnsupportedError{What: "take programs away from links", Missing: "Linux"}
}
