//go:build !linux

package bpf

import "github.com/nettoll/nettoll/internal/linux"

// Detach is not supported here.
func Detach([]Attachment) error {
	return &linux.UnsupportedError{What: "take programs away from links", Missing: "Linux"}
}

// OfGroup is not supported here.
func OfGroup(int) (map[string]string, error) {
	return nil, &linux.UnsupportedError{What: "read programs of a control group", Missing: "Linux"}
}
