package driver

import (
	"net/netip"
	"strconv"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/workload"
)

// Port writes the port of an address as programs take it.
func Port(a netip.AddrPort) string { return strconv.Itoa(int(a.Port())) }

// Grants is what the kernel grants, in the calling thread's network namespace, a socket that asks for nothing but a congestion control, as those of the
// programs do.
func Grants(s workload.Spec, stream bool) (sock.Facts, error) {
	at := netip.AddrPortFrom(s.Local.Addr(), 0)
	open := func() (sock.Socket, error) { return sock.UDP(at, netip.AddrPort{}) }
	if stream {
		open = func() (sock.Socket, error) { return sock.Stream(at, s.SocketOptions().Congestion) }
	}
	sk, err := open()
	if err != nil {
		return sock.Facts{}, err
	}
	defer sk.Close()
	return sk.Facts()
}
