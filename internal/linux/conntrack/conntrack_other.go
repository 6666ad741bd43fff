//go:build !linux

package conntrack

import (
	"net/netip"

	"github.com/nettoll/nettoll/internal/linux"
)

func unsupported() error {
	return &linux.UnsupportedError{What: "track connections", Missing: "Linux", Hint: "netfilter exists only there"}
}

// Fill is not supported here.
func Fill(Filling) error { return unsupported() }

// Flush is not supported here.
func Flush(uint32) error { return unsupported() }

// FlushUnassured is not supported here.
func FlushUnassured() error { return unsupported() }

// Forget is not supported here.
func Forget(Way) error { return unsupported() }

// Count is not supported here.
func Count(uint32) (int, error) { return 0, unsupported() }

// Total is not supported here.
func Total() (int, error) { return 0, unsupported() }

// List is not supported here.
func List() ([]Flow, error) { return nil, unsupported() }

// A Sender cannot be opened here.
type Sender struct{}

// NewSender is not supported here.
func NewSender(netip.Addr, netip.AddrPort) (*Sender, error) { return nil, unsupported() }

// Send is not supported here.
func (*Sender) Send(uint16) error { return unsupported() }

// Close does nothing.
func (*Sender) Close() {}

// A Counter cannot be opened here.
type Counter struct{}

// NewCounter is not supported here.
func NewCounter(netip.AddrPort) (*Counter, error) { return nil, unsupported() }

// Count is not supported here.
func (*Counter) Count() (int, error) { return 0, unsupported() }

// Close does nothing.
func (*Counter) Close() {}
