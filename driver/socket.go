package driver

import (
	"net/netip"
	"strconv"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/workload"
)

// Port returns the port of an address as programs accept it.
func Port(a netip.AddrPort) string { return strconv.Itoa(int(a.Port())) }

// Grants returns what the kernel grants a socket in the calling thread's network namespace that sets nothing but a
// congestion control. The programs' sockets are like this.
func Grants(s workload.Spec, stream bool) (sock.Facts, error) {
	o := sock.Options{}
	if stream {
		o.Congestion = s.SocketOptions().Congestion
	}
	return sock.Grants(s.Local.Addr(), stream, o)
}
