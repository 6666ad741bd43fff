package sock

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Errors of making and connecting sockets in a loop, in addition to those of [Socket.Send] and [Socket.Recv].
const (
	AddressInUse       = unix.EADDRINUSE
	AddressUnavailable = unix.EADDRNOTAVAIL // of connect(2): an old connection between the two addresses is not over yet
	Aborted            = unix.ECONNABORTED  // of accept(2): the connection was over before it was accepted
	Connecting         = unix.EINPROGRESS   // the socket timeout passed: call again
	StillConnecting    = unix.EALREADY      // it has passed again
	Connected          = unix.EISCONN       // it is connected already
)

const (
	family4 = unix.AF_INET
	family6 = unix.AF_INET6
)

// A Maker makes equal TCP sockets in a loop, with raw system calls: bound to one address and a port that each call
// gives, with options, and with timeouts. The sockets belong to the network namespace of the thread that calls
// [Maker.Make].
type Maker struct {
	local   Address
	family  uintptr
	kind    uintptr
	options []option
}

// option is one call of setsockopt(2).
type option struct {
	level, name uintptr
	size        uintptr
	value       [16]byte
}

// NewMaker returns a Maker, and what the kernel grants to its sockets. Timeout limits how long they connect, send and
// receive before they return Again or [Connecting]. Call it inside the network namespace.
//
// Without a port, the kernel chooses one when the socket connects. That port only needs to be free for that peer
// (IP_BIND_ADDRESS_NO_PORT, ip(7)).
func NewMaker(local netip.AddrPort, o Options, timeout time.Duration) (*Maker, Facts, error) {
	m := &Maker{local: NewAddress(local), family: family4, kind: unix.SOCK_STREAM | unix.SOCK_CLOEXEC}
	if local.Addr().Is6() {
		m.family = family6
	}
	m.integer(unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if local.Port() == 0 {
		m.integer(unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	}
	tv := unix.NsecToTimeval(int64(timeout))
	for _, name := range []uintptr{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		add := option{level: unix.SOL_SOCKET, name: name, size: unsafe.Sizeof(tv)}
		*(*unix.Timeval)(unsafe.Pointer(&add.value)) = tv
		m.options = append(m.options, add)
	}
	for _, one := range o.settings(local.Addr().Is6()) {
		name := one.name
		if one.forced != 0 && allowed(m, one) {
			name = one.forced
		}
		m.integer(one.level, name, one.value)
	}
	if o.NoDelay {
		m.integer(unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if o.Congestion != "" {
		add := option{level: unix.IPPROTO_TCP, name: unix.TCP_CONGESTION, size: uintptr(len(o.Congestion))}
		if copy(add.value[:], o.Congestion) < len(o.Congestion) {
			return nil, Facts{}, fmt.Errorf("set congestion control %q: %w", o.Congestion, unix.ENOENT)
		}
		m.options = append(m.options, add)
	}
	model, errno := m.make()
	if errno != 0 {
		return nil, Facts{}, fmt.Errorf("open sockets for %s: %w", local, errno)
	}
	defer model.Close()
	if err := model.Set(o); err != nil { // the error names the refused option
		return nil, Facts{}, err
	}
	if errno := m.set(model); errno != 0 {
		return nil, Facts{}, fmt.Errorf("open sockets for %s: %w", local, errno)
	}
	facts, err := model.Facts()
	facts.MSS = 0 // there is none before there is a connection
	return m, facts, err
}

// NeverBlock makes all sockets made from now on non-blocking. A socket that connects returns [Connecting]; connect it
// again when it is writable to get the result.
func (m *Maker) NeverBlock() { m.kind |= unix.SOCK_NONBLOCK }

// allowed reports whether a buffer may be set beyond the limit.
func allowed(m *Maker, one setting) bool {
	s, errno := m.make()
	if errno != 0 {
		return false
	}
	defer s.Close()
	return unix.SetsockoptInt(s.FD, one.level, one.forced, one.value) == nil
}

func (m *Maker) integer(level, name, value int) {
	add := option{level: uintptr(level), name: uintptr(name), size: unsafe.Sizeof(int32(0))}
	*(*int32)(unsafe.Pointer(&add.value)) = int32(value)
	m.options = append(m.options, add)
}

//go:nosplit
func (m *Maker) make() (Socket, Errno) {
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, m.family, m.kind, 0)
	if errno != 0 {
		return Socket{FD: -1}, errno
	}
	return Socket{FD: int(fd)}, 0
}

//go:nosplit
func (m *Maker) set(s Socket) Errno {
	for i := range m.options {
		o := &m.options[i]
		if _, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(s.FD), o.level, o.name,
			uintptr(unsafe.Pointer(&o.value)), o.size, 0); errno != 0 {
			return errno
		}
	}
	return 0
}

// Make makes a socket that is bound to a port; with 0, the kernel chooses one. The conditions of [Socket.Send] apply.
//
//go:nosplit
func (m *Maker) Make(port uint16) (Socket, Errno) {
	s, errno := m.make()
	if errno != 0 {
		return s, errno
	}
	if errno = m.set(s); errno == 0 {
		m.local.SetPort(port)
		_, _, errno = unix.RawSyscall(unix.SYS_BIND, uintptr(s.FD), uintptr(unsafe.Pointer(&m.local.raw)),
			uintptr(m.local.len))
	}
	if errno != 0 {
		s.Drop()
		return Socket{FD: -1}, errno
	}
	return s, 0
}

// ConnectTo is connect(2). The conditions of [Socket.Send] apply.
//
//go:nosplit
func (s Socket) ConnectTo(a *Address) Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(s.FD), uintptr(unsafe.Pointer(&a.raw)), uintptr(a.len))
	return errno
}

// AcceptNext is accept4(2). The conditions of [Socket.Send] apply. It waits as long as the listening socket's timeout.
// The accepted socket inherits that timeout and all other options.
//
//go:nosplit
func (s Socket) AcceptNext() (Socket, Errno) {
	fd, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(s.FD), 0, 0, unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return Socket{FD: -1}, errno
	}
	return Socket{FD: int(fd)}, 0
}

// Drop is close(2). The conditions of [Socket.Send] apply.
//
//go:nosplit
func (s Socket) Drop() { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(s.FD), 0, 0) }

// OutOfDescriptors reports whether an error means that this process, or the machine, has no descriptor left.
func OutOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
