//go:build !linux

package detour

import (
	"context"
	"io"
	"net"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
)

// Add is not supported here.
func Add(string, string) ([]bpf.Attachment, io.Closer, error) { return nil, nil, Check() }

// Compare is not supported here.
func Compare([]bpf.Attachment) ([]linux.Difference, error) { return nil, Check() }

// Check is not supported here.
func Check() error {
	return &linux.UnsupportedError{What: "delay or lose packets by a process", Missing: "Linux"}
}

// Serve is not supported here.
func Serve(context.Context, net.Conn, []string, io.Writer) error { return Check() }
