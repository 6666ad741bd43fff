package sock

import (
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stamps are the three times of a struct scm_timestamping64 (include/uapi/linux/errqueue.h). The first is the kernel's
// own.
type stamps [3]struct{ Sec, Nsec int64 }

const stampFlags = unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_RX_SOFTWARE |
	unix.SOF_TIMESTAMPING_SOFTWARE | unix.SOF_TIMESTAMPING_OPT_TSONLY

// SetStamps makes the kernel record when a datagram of this socket was passed to its device, for [Socket.Departed], and
// when one was received, for [Socket.RecvStamped] (SO_TIMESTAMPING, Documentation/networking/timestamping.rst). As long
// as there is such a socket, the kernel records the time of every packet that the machine receives. For the first such
// socket, a kernel worker switches that on, slightly later (net_enable_timestamp in net/core/dev.c). SetStamps waits
// for that where the loopback link of the network namespace is up. Call it inside the network namespace.
func (s Socket) SetStamps() error {
	if err := s.setStamps(); err != nil {
		return err
	}
	awaitStamps()
	return nil
}

func (s Socket) setStamps() error {
	if err := unix.SetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, stampFlags); err != nil {
		return fmt.Errorf("ask for timestamps: %w", err)
	}
	return nil
}

// awaitStamps sends datagrams over loopback until the kernel says when one was received, or for too long.
func awaitStamps() {
	const long, short = time.Second, time.Millisecond
	loopback := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	to, err := UDP(loopback, netip.AddrPort{})
	if err != nil {
		return
	}
	defer to.Close()
	at, err := to.Local()
	if err != nil || to.setStamps() != nil {
		return
	}
	from, err := UDP(loopback, at)
	if err != nil {
		return
	}
	defer from.Close()
	var b [8]byte
	var came int64
	for end := time.Now().Add(long); time.Now().Before(end); {
		if _, errno := from.Send(&b[0], len(b), 0); errno != 0 {
			return
		}
		to.WaitRecv(int64(short))
		if _, errno := to.RecvStamped(&b[0], len(b), DontWait, &came); errno == 0 && came != 0 {
			return
		}
	}
}

// RecvStamped is Recv that also returns when the datagram was received, in ns of CLOCK_REALTIME; 0 if the kernel does
// not report it.
//
//go:nosplit
func (s Socket) RecvStamped(p *byte, n int, flags int, at *int64) (int, Errno) {
	var control [64 + 16]byte // a header of 16 bytes and the three times; the rest is spare
	part := unix.Iovec{Base: p}
	part.SetLen(n)
	header := unix.Msghdr{Iov: &part, Control: &control[0]}
	header.SetIovlen(1)
	header.SetControllen(len(control))
	r, _, e := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.FD), uintptr(unsafe.Pointer(&header)), uintptr(flags))
	*at = 0
	if e == 0 {
		*at = stampIn(control[:], int(header.Controllen))
	}
	return int(r), e
}

// Departed returns when the packet sent after a given time was passed to its device, as the driver reports
// (skb_tx_timestamp). Both times are in ns of CLOCK_REALTIME; 0 means that there was no report. It takes everything
// from the socket's error queue.
//
// A packet may pass several veth links before an IP layer handles it, for example over a bridge. It then still belongs
// to its socket at each link, and each one stamps it again (skb_scrub_packet leaves the socket since Linux 4.19,
// ip_rcv_core does not). The first stamp is that of the container's own device.
//
//go:nosplit
func (s Socket) Departed(after int64) int64 {
	var control [192]byte // the times, and a struct sock_extended_err with an address
	first := int64(0)
	for {
		header := unix.Msghdr{Control: &control[0]}
		header.SetControllen(len(control))
		if _, _, e := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.FD), uintptr(unsafe.Pointer(&header)),
			unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT); e != 0 {
			return first
		}
		if at := stampIn(control[:], int(header.Controllen)); first == 0 && at >= after {
			first = at
		}
	}
}

// stampIn finds the kernel's time in n bytes of control messages (cmsg(3)).
//
//go:nosplit
func stampIn(control []byte, n int) int64 {
	const head = unix.SizeofCmsghdr
	n = min(n, len(control))
	for at := 0; at+head <= n; {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&control[at]))
		size := int(h.Len)
		if size < head || size > n-at {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPING_NEW && size >= head+int(unsafe.Sizeof(stamps{})) {
			t := (*stamps)(unsafe.Pointer(&control[at+head]))
			return t[0].Sec*1e9 + t[0].Nsec
		}
		at += (size + unix.SizeofPtr - 1) &^ (unix.SizeofPtr - 1)
	}
	return 0
}
