package sock

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Packets opens a socket that sends packets of IP with their own headers from the calling thread's network namespace.
// The kernel finds their way and asks for neighbours (raw(7), IPPROTO_RAW). With a link they leave by that one, "" for
// any. It takes CAP_NET_RAW.
func Packets(ipv6 bool, link string) (Socket, error) {
	s, err := raw(ipv6, unix.IPPROTO_RAW)
	if err != nil {
		return s, err
	}
	if link != "" {
		err = unix.BindToDevice(s.FD, link)
	}
	if err == nil && !ipv6 {
		err = unix.SetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
	}
	if err == nil { // packets wait in it for neighbours
		err = unix.SetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, unread)
		if errors.Is(err, unix.EPERM) {
			err = unix.SetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_SNDBUF, unread)
		}
	}
	if err != nil {
		s.Close()
		return Socket{FD: -1}, fmt.Errorf("send packets by link %q: %w", link, err)
	}
	return s, nil
}

// Hear opens a socket that receives the packets of a protocol which are for the calling thread's network namespace
// itself, behind the filters of that (raw(7)). It takes CAP_NET_RAW.
func Hear(ipv6 bool, protocol int) (Socket, error) {
	s, err := raw(ipv6, protocol)
	if err != nil {
		return s, err
	}
	if err := room(s.FD); err != nil {
		s.Close()
		return Socket{FD: -1}, fmt.Errorf("hear packets of protocol %d: %w", protocol, err)
	}
	return s, nil
}

func raw(ipv6 bool, protocol int) (Socket, error) {
	family := unix.AF_INET
	if ipv6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return Socket{FD: -1}, fmt.Errorf("open a raw socket: %w", err)
	}
	return Socket{FD: fd}, nil
}

// Plain opens a socket that sends datagrams of UDP, or echo requests of ICMP where a program may send those without
// rights (net.ipv4.ping_group_range, icmp(7)). The kernel writes the headers. Other sockets may share its address. The
// link is that of [Packets].
func Plain(protocol int, local netip.AddrPort, link string) (Socket, error) {
	family := unix.AF_INET
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return Socket{FD: -1}, fmt.Errorf("open a plain socket of protocol %d: %w", protocol, err)
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && link != "" {
		err = unix.BindToDevice(fd, link)
	}
	if err == nil && family == unix.AF_INET {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
	}
	if err == nil {
		err = unix.Bind(fd, sockaddr(local))
	}
	if err != nil {
		_ = unix.Close(fd)
		return Socket{FD: -1}, fmt.Errorf("open a plain socket of protocol %d at %s: %w", protocol, local, err)
	}
	return Socket{FD: fd}, nil
}

// SendPacket sends a packet with a socket of [Packets] to an address, or a message with one of [Plain], and does not
// wait. Stopped says that the sender's own namespace did not let it out: by a filter of its own, or because no route
// leads there.
func (s Socket) SendPacket(to netip.AddrPort, packet []byte) (stopped bool, err error) {
	switch err := unix.Sendto(s.FD, packet, unix.MSG_DONTWAIT, sockaddr(to)); {
	case err == nil:
		return false, nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.EINVAL),
		errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EADDRNOTAVAIL):
		return true, nil
	default:
		return false, fmt.Errorf("send a packet to %s: %w", to, err)
	}
}
