//go:build !linux

package ovs

import "github.com/nettoll/nettoll/internal/linux"

// KernelDatapath says that there is none.
func KernelDatapath() error {
	return &linux.UnsupportedError{What: "forward by Open vSwitch in the kernel", Missing: "Linux"}
}

// UserspaceDatapath says that there is none.
func UserspaceDatapath() error {
	return &linux.UnsupportedError{What: "forward by Open vSwitch in userspace", Missing: "Linux"}
}

// AwaitCPUs does not wait.
func AwaitCPUs() error { return nil }

// DeleteKernelDatapath has nothing to remove.
func DeleteKernelDatapath(string) error { return nil }
