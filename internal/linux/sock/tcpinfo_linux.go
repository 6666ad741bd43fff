package sock

import (
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TCPInfo returns the kernel's counters of a TCP connection.
func (s Socket) TCPInfo() (TCPInfo, error) {
	const micro = 1000    // the kernel counts µs
	var info unix.TCPInfo // unix.GetsockoptTCPInfo would allocate it
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(s.FD), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return TCPInfo{}, fmt.Errorf("read TCP_INFO: %w", errno)
	}
	i := TCPInfo{
		Connections: 1,
		Resent:      int64(info.Total_retrans), Delivered: int64(info.Delivered),
		Bytes: int64(info.Bytes_acked), Acks: int64(info.Segs_in - info.Data_segs_in), // both wrap
		RTT: int64(info.Rtt) * micro, MinRTT: int64(info.Min_rtt) * micro, Window: int64(info.Snd_cwnd),
		Busy: int64(info.Busy_time) * micro, PeerLimited: int64(info.Rwnd_limited) * micro,
		SendLimited: int64(info.Sndbuf_limited) * micro,
	}
	if info.Min_rtt == math.MaxUint32 { // not measured yet (tcp_init_sock, net/ipv4/tcp.c)
		i.MinRTT = i.RTT
	}
	return i, nil
}
