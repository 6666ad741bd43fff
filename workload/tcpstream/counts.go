package tcpstream

import (
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

// Counters of tcp-stream, in addition to [traffic.CountResent]. Those that begin with tcp are the kernel's counters of
// the connections on which a side sends ([sock.TCPInfo]).
const (
	countDelayed     traffic.Count = "delayed"          // ns in which the thread was ready to run without a CPU
	countConnections traffic.Count = "tcp_connections"  //
	countRTT         traffic.Count = "tcp_rtt"          // ns, of all connections together
	countMinRTT      traffic.Count = "tcp_min_rtt"      // ns, of all connections together
	countWindow      traffic.Count = "tcp_window"       // segments, of all connections together
	countAcked       traffic.Count = "tcp_acked"        // segments acknowledged by the peer
	countBytes       traffic.Count = "tcp_bytes"        // acknowledged by the peer
	countAcks        traffic.Count = "tcp_acks"         // received segments without data
	countBusy        traffic.Count = "tcp_busy"         // ns
	countPeerLimited traffic.Count = "tcp_peer_limited" // part of these, ns
	countSendLimited traffic.Count = "tcp_send_limited" // part of these, ns
)

// put sets the kernel's counters.
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
