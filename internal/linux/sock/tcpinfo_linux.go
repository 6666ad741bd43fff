package sock

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// TCPInfo asks the kernel what it has counted for a TCP connection.
func (s Socket) TCPInfo() (TCPInfo, error) {
	const micro = 1000 // the kernel counts µs
	info, err := unix.GetsockoptTCPInfo(s.FD, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return TCPInfo{}, fmt.Errorf("read TCP_INFO: %w", err)
	}
	i := TCPInfo{
		Connections: 1,
		Resent:      int64(info.Total_retrans), Delivered: int64(info.Delivered),
		RTT: int64(info.Rtt) * micro, MinRTT: int64(info.Min_rtt) * micro, Window: int64(info.Snd_cwnd),
		Busy: int64(info.Busy_time) * micro, PeerLimited: int64(info.Rwnd_limited) * micro, SendLimited: int64(info.Sndbuf_limited) * micro,
	}
	if info.Min_rtt == math.MaxUint32 { // none was measured yet (tcp_init_sock, net/ipv4/tcp.c)
		i.MinRTT = i.RTT
	}
	return i, nil
}
