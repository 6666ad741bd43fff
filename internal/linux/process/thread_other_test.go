//go:build !linux

package process

func firstThread() string { return "this is not Linux" }
