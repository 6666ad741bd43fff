//go:build !linux

package process

func firstThread() string { return "this is not Linux" }

// exhaust and survive are roles on Linux only.
func exhaust(string) {}

func survive(string) {}
