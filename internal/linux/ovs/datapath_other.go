//go:build !linux

package ovs

import "github.com/nettoll/nettoll/internal/linux"

// KernelDatapath says that there is none.
func KernelDatapath() error {
	return &linux.UnsupportedError{What: "forward by Open vSwitch in the kernel", Missing: "Linux"}
}

// DeleteKernelDatapath has nothing to remove.
func DeleteKernelDatapath(string) error { return nil }
