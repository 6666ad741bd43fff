package driver

import (
	"net/netip"
	"strconv"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/workload"
)

// Port writes the port of an address as programs take it.
func Port(a netip.AddrPort) string { return strconv.Itoa(int(a.Port())) }

// Grants is what the kernel grants, in the calling thread's network namespace, a socket that asks for nothing but a
// congestion control, as those of the programs do.
func Grants(s workload.Spec, stream bool) (sock.Facts, error) {
	o := sock.Options{}
	if stream {
		o.Congestion = s.SocketOptions().Congestion
	}
	return sock.Grants(s.Local.Addr(), stream, o)
}
