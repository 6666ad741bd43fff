package sock

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

const (
	icmpFilter = 1 // ICMP_FILTER, include/uapi/linux/icmp.h: a bit for each unwanted type

	echoReply4 = 0 // RFC 792
	echoReply6 = 129

	identifierAt = 4 // bytes from the start of an echo reply
)

// Ping opens a socket for ICMP echo from local to remote, with the port of local as identifier. Call it inside the
// network namespace.
//
// It prefers the kernel's own echo sockets, which receive only the replies to their identifier. Without permission for
// one (net.ipv4.ping_group_range, for both families), it opens a raw socket with equivalent filters; raw reports that.
// A raw IPv4 socket adds no identifier and no checksum, and receives IP headers.
func Ping(local, remote netip.AddrPort) (s Socket, raw bool, err error) {
	s, err = ping(local, remote, unix.SOCK_DGRAM)
	if err == nil {
		return s, false, nil
	}
	s, rawErr := ping(local, remote, unix.SOCK_RAW)
	if rawErr == nil {
		return s, true, nil
	}
	if errors.Is(rawErr, unix.EPERM) {
		return s, false, &linux.UnsupportedError{
			What: "send ICMP echo requests", Missing: "CAP_NET_RAW", Hint: "or a group of yours in net.ipv4.ping_group_range: " +
				err.Error(),
		}
	}
	return s, false, errors.Join(err, rawErr)
}

func ping(local, remote netip.AddrPort, kind int) (Socket, error) {
	identifier := local.Port()
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if local.Addr().Is6() {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	if kind == unix.SOCK_RAW { // raw sockets have no ports
		local, remote = netip.AddrPortFrom(local.Addr(), 0), netip.AddrPortFrom(remote.Addr(), 0)
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return Socket{FD: -1}, fmt.Errorf("open echo socket: %w", err)
	}
	s := Socket{FD: fd}
	if kind == unix.SOCK_RAW {
		err = s.filterReplies(family == unix.AF_INET6, identifier)
	}
	if err == nil {
		err = unix.Bind(fd, sockaddr(local))
	}
	if err == nil {
		err = unix.Connect(fd, sockaddr(remote))
	}
	if err != nil {
		s.Close()
		return Socket{FD: -1}, fmt.Errorf("open echo socket from %s with identifier %d to %s: %w", local.Addr(), identifier,
			remote.Addr(), err)
	}
	return s, nil
}

// filterReplies makes a raw socket receive only the echo replies to an identifier.
func (s Socket) filterReplies(ipv6 bool, identifier uint16) error {
	// Offsets count from the IP header in IPv4, and from the ICMP header in IPv6 (raw_rcv, net/ipv4/raw.c; rawv6_rcv,
	// net/ipv6/raw.c).
	load := []unix.SockFilter{
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0}, // length of the IP header
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: identifierAt},
	}
	if ipv6 {
		load = []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: identifierAt}}
	}
	filter := append(load,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(identifier), Jf: 1},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0})
	err := unix.SetsockoptSockFprog(s.FD, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	if err != nil {
		return err
	}
	// The kernel does not copy messages of unwanted types for the socket.
	if ipv6 {
		var unwanted unix.ICMPv6Filter
		for i := range unwanted.Data {
			unwanted.Data[i] = 1<<32 - 1
		}
		unwanted.Data[echoReply6/32] &^= 1 << (echoReply6 % 32)
		return unix.SetsockoptICMPv6Filter(s.FD, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &unwanted)
	}
	return unix.SetsockoptInt(s.FD, unix.SOL_RAW, icmpFilter, ^(1 << echoReply4))
}

// Echoes counts the echo requests of one family that a network namespace receives.
type Echoes struct {
	file *os.File
	ipv6 bool
}

// NewEchoes returns the counter for the calling thread's namespace.
func NewEchoes(ipv6 bool) (*Echoes, error) {
	path := "/proc/thread-self/net/snmp"
	if ipv6 {
		path = "/proc/thread-self/net/snmp6"
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("count echo requests: %w", err)
	}
	return &Echoes{f, ipv6}, nil
}

// Count returns the number so far (RFC 2011, icmpInEchos; RFC 2466, ipv6IfIcmpInEchos).
func (e *Echoes) Count() (int64, error) {
	const most = 16 << 10 // bytes: about 200 lines of 40, or 15 of 300
	text, err := io.ReadAll(io.NewSectionReader(e.file, 0, most))
	if err != nil {
		return 0, fmt.Errorf("count echo requests: %w", err)
	}
	return echoes(string(text), e.ipv6)
}

// Close closes the counter.
func (e *Echoes) Close() { _ = e.file.Close() }
