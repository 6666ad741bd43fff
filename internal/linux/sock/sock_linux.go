package sock

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// UDP opens a datagram socket bound to local and connected to remote. Call it inside the network namespace.
func UDP(local, remote netip.AddrPort) (Socket, error) { return udp(local, remote, false) }

// UDPBeside is UDP at an address that other sockets opened by UDPBeside may share. The kernel delivers a datagram to
// the socket that is connected to its source (compute_score, net/ipv4/udp.c).
func UDPBeside(local, remote netip.AddrPort) (Socket, error) { return udp(local, remote, true) }

func udp(local, remote netip.AddrPort, shared bool) (Socket, error) {
	s, err := open(local, unix.SOCK_DGRAM, shared)
	if err != nil {
		return s, err
	}
	if remote.IsValid() {
		if err := unix.Connect(s.FD, sockaddr(remote)); err != nil {
			s.Close()
			return Socket{FD: -1}, fmt.Errorf("connect udp %s to %s: %w", local, remote, err)
		}
	}
	return s, nil
}

// Stream opens a TCP socket that is bound to local. Its congestion control is set before the first segment. Call it
// inside the network namespace. An empty congestion leaves the namespace's default.
func Stream(local netip.AddrPort, congestion string) (Socket, error) {
	s, err := open(local, unix.SOCK_STREAM, true)
	if err != nil {
		return s, err
	}
	if congestion != "" {
		if err := s.SetCongestion(congestion); err != nil {
			s.Close()
			return Socket{FD: -1}, err
		}
	}
	return s, nil
}

// open opens a socket at an address that others may share if all of them are opened as shared.
func open(local netip.AddrPort, kind int, shared bool) (Socket, error) {
	family := unix.AF_INET
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Socket{FD: -1}, fmt.Errorf("open socket for %s: %w", local, err)
	}
	s := Socket{FD: fd}
	if shared {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			s.Close()
			return Socket{FD: -1}, fmt.Errorf("allow reuse of %s: %w", local, err)
		}
	}
	if err := unix.Bind(fd, sockaddr(local)); err != nil {
		s.Close()
		return Socket{FD: -1}, fmt.Errorf("bind to %s: %w", local, err)
	}
	return s, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is6() {
		return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port()), ZoneId: scope(a.Addr().Zone())}
	}
	return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}

// scope returns the number of the link that a zone names, by its name or its number (RFC 4007, section 11). If there is
// no such link, it returns 0, and the kernel refuses the address.
func scope(zone string) uint32 {
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil || zone == "" {
		return uint32(n)
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	return 0
}

// Local returns the address to which the socket is bound.
func (s Socket) Local() (netip.AddrPort, error) {
	sa, err := unix.Getsockname(s.FD)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("read socket's address: %w", err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("socket has an address of unknown type %T", sa)
}

// waiting is how many connections of a listening socket may wait to be accepted. If there is no room for a connection,
// its peer tries again after a second (TCP_TIMEOUT_INIT, include/net/tcp.h).
const waiting = 128

// Listen makes a TCP socket accept connections.
func (s Socket) Listen() error {
	if err := unix.Listen(s.FD, waiting); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// Accept waits up to timeout for a connection.
func (s Socket) Accept(timeout time.Duration) (Socket, error) {
	if err := s.wait(unix.POLLIN, timeout); err != nil {
		return Socket{FD: -1}, fmt.Errorf("accept: %w", err)
	}
	fd, _, err := unix.Accept4(s.FD, unix.SOCK_CLOEXEC)
	if err != nil {
		return Socket{FD: -1}, fmt.Errorf("accept: %w", err)
	}
	return Socket{FD: fd}, nil
}

// Connect connects a TCP socket within timeout.
func (s Socket) Connect(remote netip.AddrPort, timeout time.Duration) error {
	to := NewAddress(remote)
	err := s.BeginConnect(&to)
	if err == nil {
		err = s.EndConnect(timeout)
	}
	if err != nil {
		return fmt.Errorf("connect to %s: %w", remote, err)
	}
	return nil
}

// EndConnect waits up to timeout for the end of [Socket.BeginConnect]. The socket blocks again from then on.
func (s Socket) EndConnect(timeout time.Duration) error {
	if err := s.wait(unix.POLLOUT, timeout); err != nil {
		return err
	}
	if err := s.Pending(); err != nil {
		return err
	}
	return unix.SetNonblock(s.FD, false)
}

// wait polls for events; after timeout it returns os.ErrDeadlineExceeded. An event that is there by then counts, even
// if the thread slept through the timeout.
func (s Socket) wait(events int16, timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); ; {
		left := max(0, time.Until(deadline))
		fds := []unix.PollFd{{Fd: int32(s.FD), Events: events}}
		n, err := unix.Poll(fds, int((left+time.Millisecond-1)/time.Millisecond))
		switch {
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case left == 0:
			return os.ErrDeadlineExceeded
		}
	}
}

// Close closes the socket. It does nothing if the socket was never opened.
func (s Socket) Close() {
	if s.FD >= 0 {
		_ = unix.Close(s.FD) // the descriptor is gone whatever close returns (close(2), "Dealing with error returns")
	}
}

// Abort closes a TCP socket and resets its connection at once: unsent data is discarded.
func (s Socket) Abort() {
	if s.FD >= 0 {
		// without this option, it is an ordinary close
		_ = unix.SetsockoptLinger(s.FD, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 0})
		s.Close()
	}
}

// SetTimeout limits how long Send and Recv block; they then return EAGAIN. The kernel rounds up to its tick (4 ms at
// HZ=250).
func (s Socket) SetTimeout(d time.Duration) error {
	tv := unix.NsecToTimeval(int64(d))
	for _, opt := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(s.FD, unix.SOL_SOCKET, opt, &tv); err != nil {
			return fmt.Errorf("set socket timeout %s: %w", d, err)
		}
	}
	return nil
}

// Set sets options. Set the buffers of a stream before it connects or listens: its window scale depends on them
// (tcp(7)).
func (s Socket) Set(o Options) error {
	domain, err := unix.GetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return fmt.Errorf("read socket's family: %w", err)
	}
	for _, one := range o.settings(domain == unix.AF_INET6) {
		if one.forced != 0 && unix.SetsockoptInt(s.FD, one.level, one.forced, one.value) == nil {
			continue
		}
		if err := unix.SetsockoptInt(s.FD, one.level, one.name, one.value); err != nil {
			return fmt.Errorf("set %s to %d: %w", one.what, one.value, err)
		}
	}
	if o.NoDelay {
		if err := unix.SetsockoptInt(s.FD, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return fmt.Errorf("switch Nagle's algorithm off: %w", err)
		}
	}
	if o.Congestion != "" {
		return s.SetCongestion(o.Congestion)
	}
	return nil
}

// setting is one option that holds a number.
type setting struct {
	what               string
	value, level, name int
	// the option without a limit, for processes with CAP_NET_ADMIN in the initial user namespace; 0: there is none
	forced int
}

// settings returns the requested options.
func (o Options) settings(ipv6 bool) []setting {
	tosLevel, tos := unix.IPPROTO_IP, unix.IP_TOS
	if ipv6 {
		tosLevel, tos = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	all := []setting{
		{"send buffer", o.SendBuffer, unix.SOL_SOCKET, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE},
		{"receive buffer", o.RecvBuffer, unix.SOL_SOCKET, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE},
		{"DSCP", o.DSCP << 2, tosLevel, tos, 0},
		{"busy polling in µs", int(o.BusyPoll / time.Microsecond), unix.SOL_SOCKET, unix.SO_BUSY_POLL, 0},
	}
	return slices.DeleteFunc(all, func(s setting) bool { return s.value == 0 })
}

// SetCongestion sets TCP_CONGESTION. With CAP_NET_ADMIN in the socket's namespace every algorithm the kernel has is
// allowed.
func (s Socket) SetCongestion(name string) error {
	if err := unix.SetsockoptString(s.FD, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
		return fmt.Errorf("set congestion control %q: %w", name, err)
	}
	return nil
}

// PathMTU returns the largest IP packet in bytes that a connected socket sends whole, as far as the kernel knows the
// path: IP_MTU, ip(7), and IPV6_MTU, ipv6(7).
func (s Socket) PathMTU(ipv6 bool) (int, error) {
	level, opt := unix.IPPROTO_IP, unix.IP_MTU
	if ipv6 {
		level, opt = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	n, err := unix.GetsockoptInt(s.FD, level, opt)
	if err != nil {
		return 0, fmt.Errorf("read the MTU of the path: %w", err)
	}
	return n, nil
}

// SetNoFragment sets the don't-fragment bit on every datagram and returns an error for one larger than the path's MTU.
func (s Socket) SetNoFragment(ipv6 bool) error {
	level, opt, val := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	if ipv6 {
		level, opt, val = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	if err := unix.SetsockoptInt(s.FD, level, opt, val); err != nil {
		return fmt.Errorf("forbid fragments: %w", err)
	}
	return nil
}

// Facts reads the facts of a socket.
func (s Socket) Facts() (Facts, error) {
	var f Facts
	var err error
	if f.SendBuffer, err = unix.GetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_SNDBUF); err != nil {
		return f, fmt.Errorf("read send buffer: %w", err)
	}
	if f.RecvBuffer, err = unix.GetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil {
		return f, fmt.Errorf("read receive buffer: %w", err)
	}
	kind, err := unix.GetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return f, fmt.Errorf("read socket type: %w", err)
	}
	f.Raw = kind == unix.SOCK_RAW
	if kind != unix.SOCK_STREAM {
		return f, nil
	}
	if f.MSS, err = unix.GetsockoptInt(s.FD, unix.IPPROTO_TCP, unix.TCP_MAXSEG); err != nil {
		return f, fmt.Errorf("read MSS: %w", err)
	}
	if f.Congestion, err = unix.GetsockoptString(s.FD, unix.IPPROTO_TCP, unix.TCP_CONGESTION); err != nil {
		return f, fmt.Errorf("read congestion control: %w", err)
	}
	return f, nil
}

// Retransmits returns the number of segments that a TCP socket has retransmitted since it was opened
// (tcp_info.tcpi_total_retrans).
func (s Socket) Retransmits() (uint64, error) {
	info, err := unix.GetsockoptTCPInfo(s.FD, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, fmt.Errorf("read TCP_INFO: %w", err)
	}
	return uint64(info.Total_retrans), nil
}

// AnyStream opens an unbound IPv4 TCP socket, to find out what the kernel allows. Call it inside the network namespace.
func AnyStream() (Socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Socket{FD: -1}, fmt.Errorf("open socket: %w", err)
	}
	return Socket{FD: fd}, nil
}

// Shutdown wakes a thread that is blocked in the socket; the socket then receives nothing any more.
func (s Socket) Shutdown() { _ = unix.Shutdown(s.FD, unix.SHUT_RDWR) } // nobody waits in an unconnected socket
