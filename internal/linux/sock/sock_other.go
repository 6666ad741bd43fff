//go:build !linux

package sock

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
)

func unsupported(what string) error {
	return &linux.UnsupportedError{What: what, Missing: "Linux", Hint: "the traffic of containers is driven only there"}
}

// Errors of Send and Recv. They are never returned here, since there is no socket to call them on.
const (
	Again       = syscall.EAGAIN
	Interrupted = syscall.EINTR
	Refused     = syscall.ECONNREFUSED
)

// Flags of Send and Recv. They have no meaning here.
const (
	DontWait = 0
	NoSignal = 0
)

// UDP is not supported here.
func UDP(_, _ netip.AddrPort) (Socket, error) {
	return Socket{FD: -1}, unsupported("open datagram socket")
}

// UDPBeside is not supported here.
func UDPBeside(_, _ netip.AddrPort) (Socket, error) {
	return Socket{FD: -1}, unsupported("open datagram socket")
}

// Stream is not supported here.
func Stream(netip.AddrPort, string) (Socket, error) {
	return Socket{FD: -1}, unsupported("open stream socket")
}

// AnyStream is not supported here.
func AnyStream() (Socket, error) { return Socket{FD: -1}, unsupported("open stream socket") }

// Local is not supported here.
func (Socket) Local() (netip.AddrPort, error) {
	return netip.AddrPort{}, unsupported("read socket's address")
}

// Listen is not supported here.
func (Socket) Listen() error { return unsupported("listen") }

// Accept is not supported here.
func (Socket) Accept(time.Duration) (Socket, error) { return Socket{FD: -1}, unsupported("accept") }

// Connect is not supported here.
func (Socket) Connect(netip.AddrPort, time.Duration) error { return unsupported("connect") }

// EndConnect is not supported here.
func (Socket) EndConnect(time.Duration) error { return unsupported("connect") }

// Close does nothing here: no socket was opened.
func (Socket) Close() {}

// Abort does nothing here.
func (Socket) Abort() {}

// Shutdown does nothing here.
func (Socket) Shutdown() {}

// SetTimeout is not supported here.
func (Socket) SetTimeout(time.Duration) error { return unsupported("set socket timeout") }

// SetCongestion is not supported here.
func (Socket) SetCongestion(string) error { return unsupported("set congestion control") }

// PathMTU is not supported here.
func (Socket) PathMTU(bool) (int, error) { return 0, unsupported("read the MTU of the path") }

// SetNoFragment is not supported here.
func (Socket) SetNoFragment(bool) error { return unsupported("forbid fragments") }

// Facts is not supported here.
func (Socket) Facts() (Facts, error) { return Facts{}, unsupported("read what a socket was granted") }

// Retransmits is not supported here.
func (Socket) Retransmits() (uint64, error) { return 0, unsupported("read retransmits") }

// Send is not supported here.
func (Socket) Send(*byte, int, int) (int, Errno) { return -1, syscall.ENOTSUP }

// Recv is not supported here.
func (Socket) Recv(*byte, int, int) (int, Errno) { return -1, syscall.ENOTSUP }

// WaitRecv does nothing here.
func (Socket) WaitRecv(int64) {}

// Drain does nothing here: no socket was opened.
func (Socket) Drain() int64 { return 0 }

// RecvParked is not supported here.
func (Socket) RecvParked([]byte) (int, Errno) { return -1, syscall.ENOTSUP }

// Set is not supported here.
func (Socket) Set(Options) error { return unsupported("set socket options") }

// TCPInfo is not supported here.
func (Socket) TCPInfo() (TCPInfo, error) { return TCPInfo{}, unsupported("read TCP_INFO") }

// Values for zero copy. They have no meaning here.
const (
	ZeroCopy = 0
	NoRoom   = syscall.ENOBUFS
)

// SetZeroCopy is not supported here.
func (Socket) SetZeroCopy() error { return unsupported("switch zero copy on") }

// Reaper has nothing to take here.
type Reaper struct{}

// NewReaper returns a Reaper.
func NewReaper() *Reaper { return &Reaper{} }

// Reap takes nothing here.
func (*Reaper) Reap(Socket) (sends, copied uint32) { return 0, 0 }

// Poller has nothing to wait for here.
type Poller struct{}

// NewPoller returns a Poller.
func NewPoller(int) *Poller { return &Poller{} }

// Watch does nothing here.
func (*Poller) Watch(int, Socket, bool, bool) {}

// Wait does nothing here.
func (*Poller) Wait(int64) {}

// Ready reports that nothing is ready.
func (*Poller) Ready(int) (read, write, told bool) { return false, false, false }

// Errors of making and connecting sockets. They are never returned here.
const (
	AddressInUse       = syscall.EADDRINUSE
	AddressUnavailable = syscall.EADDRNOTAVAIL
	Aborted            = syscall.ECONNABORTED
	Connecting         = syscall.EINPROGRESS
	StillConnecting    = syscall.EALREADY
)

const family4, family6 = 0, 0

// Maker makes nothing here.
type Maker struct{}

// NewMaker is not supported here.
func NewMaker(netip.AddrPort, Options, time.Duration) (*Maker, Facts, error) {
	return nil, Facts{}, unsupported("open stream sockets")
}

// Make is not supported here.
func (*Maker) Make(uint16) (Socket, Errno) { return Socket{FD: -1}, syscall.ENOTSUP }

// ConnectTo is not supported here.
func (Socket) ConnectTo(*Address) Errno { return syscall.ENOTSUP }

// AcceptNext is not supported here.
func (Socket) AcceptNext() (Socket, Errno) { return Socket{FD: -1}, syscall.ENOTSUP }

// Drop does nothing here.
func (Socket) Drop() {}

// OutOfDescriptors is always false here.
func OutOfDescriptors(error) bool { return false }

// Nagle does nothing here.
func (Socket) Nagle(bool) {}
