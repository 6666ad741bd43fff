//go:build !linux

package sock

import "net/netip"

// Ping is not supported here.
func Ping(_, _ netip.AddrPort) (Socket, bool, error) {
	return Socket{FD: -1}, false, unsupported("send ICMP echo requests")
}

// Echoes counts nothing here.
type Echoes struct{}

// NewEchoes is not supported here.
func NewEchoes(bool) (*Echoes, error) { return nil, unsupported("count echo requests") }

// Count is not supported here.
func (*Echoes) Count() (int64, error) { return 0, unsupported("count echo requests") }

// Close does nothing here.
func (*Echoes) Close() {}
