//go:build !linux

package sysfs

import "github.com/nettoll/nettoll/internal/linux"

func unsupported() error {
	return &linux.UnsupportedError{
		What: "open /sys of the network namespace", Missing: "Linux", Hint: "sysfs exists only there",
	}
}

// A Links cannot be opened here.
type Links struct{}

// Open is not supported here.
func Open() (*Links, error) { return nil, unsupported() }

// Close does nothing.
func (*Links) Close() {}

// Read is not supported here.
func (*Links) Read(_, _ string) (string, error) { return "", unsupported() }

// Write is not supported here.
func (*Links) Write(_, _, _ string) error { return unsupported() }

// List is not supported here.
func (*Links) List(_, _ string) ([]string, error) { return nil, unsupported() }

// CPUs is not supported here.
func (*Links) CPUs() (string, error) { return "", unsupported() }
