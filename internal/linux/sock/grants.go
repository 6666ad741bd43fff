package sock

import "net/netip"

// Grants is what the kernel grants, in the calling thread's network namespace, a socket of these options, for streams
// or for datagrams: one that is made to find that out, where the sockets that are used are a program's.
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
