//go:build !linux

package wireguard

import (
	"context"
	"io"
	"net"
	"syscall"

	"github.com/nettoll/nettoll/internal/linux"
)

func unsupported(what string) error { return &linux.UnsupportedError{What: what, Missing: "Linux"} }

// SignalRenew is a placeholder here.
const SignalRenew = syscall.SIGINT

// MergedMost is the same as on Linux, so that plans are the same.
const MergedMost = 128

// InKernel is not supported here.
func InKernel() error { return unsupported("make links of type \"wireguard\"") }

// Embeddable is not supported here.
func Embeddable() error { return unsupported("encrypt by the embedded WireGuard") }

// Args returns nothing here.
func Args(string, int) []string { return nil }

// Add is not supported here.
func Add(string, int) (int, error) { return 0, InKernel() }

// SetKernel is not supported here.
func SetKernel(string, Config) error { return InKernel() }

// GetKernel is not supported here.
func GetKernel(string) (State, error) { return State{}, InKernel() }

// Serve is not supported here.
func Serve(context.Context, net.Conn, []string, io.Writer) error { return Embeddable() }
