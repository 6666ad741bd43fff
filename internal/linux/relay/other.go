//go:build !linux

package relay

import (
	"context"
	"io"
	"net"

	"github.com/nettoll/nettoll/internal/linux"
)

// Serve is not supported here.
func Serve(context.Context, net.Conn, []string, io.Writer) error {
	return &linux.UnsupportedError{What: "move frames between TAP devices", Missing: "Linux"}
}
