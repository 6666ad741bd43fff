package sock

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// WaitForOne makes RecvBatch block until there is one message; it then takes all that are there.
const WaitForOne = unix.MSG_WAITFORONE

// A Batch holds the messages of one sendmmsg(2) or recvmmsg(2): slots in one buffer, each with its own length.
type Batch struct {
	buf     []byte
	stride  int
	headers []mmsghdr
	parts   []unix.Iovec
	from    []Address
	control []segmentControl // nil unless segment sizes were requested
	used    int              // of a receiving batch: slots that the last call may have written to
}

// mmsghdr is struct mmsghdr (recvmmsg(2)). Go pads it like C.
type mmsghdr struct {
	header unix.Msghdr
	len    uint32
}

// segmentControl is the only control message of a socket with UDP_GRO: an int (udp(7)).
type segmentControl struct {
	header unix.Cmsghdr
	size   int32
	_      [4]byte // CMSG_ALIGN
}

// NewBatch makes a batch to send: slot i begins at buf[i*stride] and has size bytes, unless SetLen changes that.
func NewBatch(buf []byte, stride, size int) *Batch {
	n := len(buf) / stride
	b := &Batch{buf: buf, stride: stride, headers: make([]mmsghdr, n), parts: make([]unix.Iovec, n)}
	for i := range n {
		b.parts[i].Base = &buf[i*stride]
		b.parts[i].SetLen(size)
		b.headers[i].header.Iov = &b.parts[i]
		b.headers[i].header.SetIovlen(1)
	}
	return b
}

// NewRecvBatch makes a batch to receive n messages of up to size bytes, with their senders and, if segments is set,
// with the sizes of their segments.
func NewRecvBatch(n, size int, segments bool) *Batch {
	b := NewBatch(make([]byte, n*size), size, size)
	b.from, b.used = make([]Address, n), n
	if segments {
		b.control = make([]segmentControl, n)
	}
	for i := range n {
		h := &b.headers[i].header
		h.Name = &b.from[i].raw[0]
		if segments {
			h.Control = (*byte)(unsafe.Pointer(&b.control[i]))
		}
	}
	return b
}

// Message returns the message that RecvBatch has put into a slot.
//
//go:nosplit
func (b *Batch) Message(i int) []byte { return b.buf[i*b.stride:][:b.headers[i].len] }

// Segment returns the size in bytes of the datagrams in a slot; the last one may be shorter. With UDP_GRO, the kernel
// returns several datagrams of a flow as one message. Segment returns 0 for a single datagram.
//
//go:nosplit
func (b *Batch) Segment(i int) int {
	if b.control == nil || b.headers[i].header.Controllen == 0 {
		return 0
	}
	if c := &b.control[i]; c.header.Level == unix.SOL_UDP && c.header.Type == unix.UDP_GRO {
		return int(c.size)
	}
	return 0
}

// From returns the source address of the message in a slot.
//
//go:nosplit
func (b *Batch) From(i int) *Address {
	b.from[i].len = b.headers[i].header.Namelen
	return &b.from[i]
}

// SetLen sets the length of the message to send in a slot.
//
//go:nosplit
func (b *Batch) SetLen(i, n int) { b.parts[i].SetLen(n) }

// SendBatch sends the first n slots and returns how many were sent. The conditions of Send apply. If an error occurs
// after some were sent, the next call returns it.
//
//go:nosplit
func (s Socket) SendBatch(b *Batch, n int, flags int) (int, Errno) {
	r, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.FD), uintptr(unsafe.Pointer(&b.headers[0])), uintptr(n),
		uintptr(flags), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(r), 0
}

// RecvBatch receives as many messages as are there, at most one for each slot. The conditions of Recv apply.
//
//go:nosplit
func (s Socket) RecvBatch(b *Batch, flags int) (int, Errno) {
	for i := range b.headers[:b.used] { // the kernel has overwritten the lengths
		h := &b.headers[i].header
		h.Namelen = mostAddress
		if b.control != nil {
			h.SetControllen(int(unsafe.Sizeof(segmentControl{})))
		}
	}
	r, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(s.FD), uintptr(unsafe.Pointer(&b.headers[0])),
		uintptr(len(b.headers)), uintptr(flags), 0, 0)
	if e != 0 {
		b.used = 1 // it may have started with the first
		return 0, e
	}
	b.used = min(int(r)+1, len(b.headers))
	return int(r), 0
}

// RecvFrom is Recv that also returns the source of the datagram.
//
//go:nosplit
func (s Socket) RecvFrom(p *byte, n int, flags int, from *Address) (int, Errno) {
	from.len = mostAddress
	r, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.FD), uintptr(unsafe.Pointer(p)), uintptr(n), uintptr(flags),
		uintptr(unsafe.Pointer(&from.raw[0])), uintptr(unsafe.Pointer(&from.len)))
	return int(r), e
}

// SendTo is Send to the source of a received datagram.
//
//go:nosplit
func (s Socket) SendTo(p *byte, n int, flags int, to *Address) (int, Errno) {
	r, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.FD), uintptr(unsafe.Pointer(p)), uintptr(n), uintptr(flags),
		uintptr(unsafe.Pointer(&to.raw[0])), uintptr(to.len))
	return int(r), e
}

// Drops returns how many packets the kernel has dropped since the socket was opened because its receive buffer was full
// (SO_MEMINFO, sk_drops); false if the kernel does not report it. A packet of several datagrams counts once (UDP_GRO).
//
//go:nosplit
func (s Socket) Drops() (int64, bool) {
	var info [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, e := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(s.FD), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	return int64(info[unix.SK_MEMINFO_DROPS]), e == 0 && size == uint32(unsafe.Sizeof(info))
}

// SetSegment makes the kernel cut each send into datagrams of this many bytes (UDP_SEGMENT): at most [MostSegments], of
// which the last one may be shorter. The socket must be connected. Whether its path supports that only shows when
// something is sent (udp_send_skb in net/ipv4/udp.c), so SetSegment sends two datagrams of zeros. A path with IPsec in
// the kernel does not support it, and segments are not fragments. It is not an error if nobody listens yet.
func (s Socket) SetSegment(size int) error {
	if err := s.setUDP(unix.UDP_SEGMENT, "UDP_SEGMENT", size); err != nil {
		return err
	}
	zeros := make([]byte, 2*size)
	switch _, e := s.Send(&zeros[0], len(zeros), DontWait); e {
	case unix.EIO:
		return &linux.UnsupportedError{
			What: "send segments", Missing: "UDP_SEGMENT on this path", Hint: "where the kernel encrypts, send without segments",
			Err: e,
		}
	case unix.EMSGSIZE, unix.EINVAL:
		return fmt.Errorf("send segments of %d bytes (valid: as many as fit the path's MTU): %w", size, e)
	default:
		return nil
	}
}

// SetCoalesce lets the kernel return several datagrams of a flow as one message (UDP_GRO); see [Batch.Segment].
func (s Socket) SetCoalesce() error { return s.setUDP(unix.UDP_GRO, "UDP_GRO", 1) }

func (s Socket) setUDP(option int, name string, value int) error {
	err := unix.SetsockoptInt(s.FD, unix.SOL_UDP, option, value)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return &linux.UnsupportedError{
			What: "send and receive segments", Missing: name, Hint: "it is there since Linux 5.0", Err: err,
		}
	}
	if err != nil {
		return fmt.Errorf("set %s to %d: %w", name, value, err)
	}
	return nil
}
