//go:build !linux

package testnet

import "testing"

// Descriptors is not supported here.
func Descriptors(t testing.TB) int {
	t.Helper()
	t.Fatal("open files are counted on Linux only")
	return 0
}

// FewDescriptors is not supported here.
func FewDescriptors(t testing.TB, _ int, _ func()) {
	t.Helper()
	t.Fatal("open files are limited on Linux only")
}
