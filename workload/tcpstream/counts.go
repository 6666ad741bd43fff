package tcpstream

import (
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

// Counters of tcp-stream, with [traffic.CountResent]. Those that begin with tcp are what the kernel has counted for the
// connections that a side sends on ([sock.TCPInfo]).
const (
	countDelayed     traffic.Count = "delayed"          // ns in which the thread was ready to run and had no CPU
	countConnections traffic.Count = "tcp_connections"  //
	countRTT         traffic.Count = "tcp_rtt"          // ns, of all connections together
	countMinRTT      traffic.Count = "tcp_min_rtt"      // ns, likewise
	countWindow      traffic.Count = "tcp_window"       // segments, likewise
	countAcked       traffic.Count = "tcp_acked"        // segments that the peer has acknowledged
	countBytes       traffic.Count = "tcp_bytes"        // that the peer has acknowledged
	countAcks        traffic.Count = "tcp_acks"         // segments without data that came
	countBusy        traffic.Count = "tcp_busy"         // ns
	countPeerLimited traffic.Count = "tcp_peer_limited" // of those, ns
	countSendLimited traffic.Count = "tcp_send_limited" // likewise
)

// put notes what the kernel has counted.
func put(s *traffic.Sample, tcp sock.TCPInfo) {
	s.Count(traffic.CountResent, tcp.Resent)
	s.Count(countConnections, int64(tcp.Connections))
	s.Count(countRTT, tcp.RTT)
	s.Count(countMinRTT, tcp.MinRTT)
	s.Count(countWindow, tcp.Window)
	s.Count(countAcked, tcp.Delivered)
	s.Count(countBytes, tcp.Bytes)
	s.Count(countAcks, tcp.Acks)
	s.Count(countBusy, tcp.Busy)
	s.Count(countPeerLimited, tcp.PeerLimited)
	s.Count(countSendLimited, tcp.SendLimited)
}
