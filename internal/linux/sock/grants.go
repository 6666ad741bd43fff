package sock

import "net/netip"

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
