package sock

import (
	"fmt"
	"net/netip"

	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

// Grants returns what the kernel grants, in the calling thread's network namespace, to a stream or datagram socket with
// these options. It makes a socket to find that out, for sockets that belong to another program.
func Grants(at netip.Addr, stream bool, o Options) (Facts, error) {
	open := func() (Socket, error) { return UDP(netip.AddrPortFrom(at, 0), netip.AddrPort{}) }
	if stream {
		open = func() (Socket, error) { return Stream(netip.AddrPortFrom(at, 0), "") }
	}
	s, err := open()
	if err != nil {
		return Facts{}, err
	}
	defer s.Close()
	if err := s.Set(o); err != nil {
		return Facts{}, err
	}
	return s.Facts()
}

// Largest returns how large the kernel makes the buffers of a stream or datagram socket whose options set no size, in
// bytes as it counts them, in the calling thread's network namespace. Those of streams grow with the traffic
// (tcp_rcvbuf_grow and tcp_sndbuf_expand, net/ipv4/tcp_input.c).
func Largest(at netip.Addr, stream bool) (Facts, error) {
	f, err := Grants(at, stream, Options{})
	if err != nil || !stream {
		return f, err
	}
	for key, size := range map[string]*int{"net.ipv4.tcp_wmem": &f.SendBuffer, "net.ipv4.tcp_rmem": &f.RecvBuffer} {
		text, err := sysctl.Read(key)
		if err != nil {
			return f, err
		}
		var least, first, most int
		if _, err := fmt.Sscan(text, &least, &first, &most); err != nil {
			return f, fmt.Errorf("sysctl %q has the value %q: %w", key, text, err)
		}
		*size = max(*size, most)
	}
	return f, nil
}
