//go:build !linux

package ovs

import "github.com/nettoll/nettoll/internal/linux"

// KernelDatapath is not supported here.
func KernelDatapath() error {
	return &linux.UnsupportedError{What: "forward by Open vSwitch in the kernel", Missing: "Linux"}
}

// UserspaceDatapath is not supported here.
func UserspaceDatapath() error {
	return &linux.UnsupportedError{What: "forward by Open vSwitch in userspace", Missing: "Linux"}
}

// AwaitCPUs does not wait.
func AwaitCPUs() error { return nil }

// DeleteKernelDatapath does nothing here.
func DeleteKernelDatapath(string) error { return nil }
