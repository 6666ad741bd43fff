package sock

// TCPInfo is what the kernel has counted for TCP connections as the side that sends (struct tcp_info,
// include/uapi/linux/tcp.h): one connection since it was opened, or several, added up, since some moment. What is no
// counter is as it was when it was last read.
type TCPInfo struct {
	Connections int   `json:"connections"`
	Resent      int64 `json:"resent"`    // segments sent again
	Delivered   int64 `json:"delivered"` // segments that the peer has acknowledged
	Bytes       int64 `json:"bytes"`     // bytes that the peer has acknowledged (tcpi_bytes_acked)
	Acks        int64 `json:"acks"`      // segments without data that came (tcpi_segs_in − tcpi_data_segs_in)
	RTT         int64 `json:"rtt"`       // ns, smoothed, of all connections together
	// ns, the shortest of the last five minutes (tcp_min_rtt_wlen), of all connections together
	MinRTT int64 `json:"min_rtt"`
	Window int64 `json:"window"` // segments: the congestion window
	Busy   int64 `json:"busy"`   // ns in which something was sent and not acknowledged, or waited to be sent
	// of Busy, ns in which the receive window of the peer was full (tcpi_rwnd_limited)
	PeerLimited int64 `json:"peer_limited"`
	// of Busy, ns in which there was too little send buffer to fill the congestion window (tcpi_sndbuf_limited)
	SendLimited int64 `json:"send_limited"`
}

// Since returns what was counted after an earlier reading.
func (i TCPInfo) Since(earlier TCPInfo) TCPInfo {
	i.Resent -= earlier.Resent
	i.Delivered -= earlier.Delivered
	i.Bytes -= earlier.Bytes
	i.Acks = int64(uint32(i.Acks - earlier.Acks)) // the kernel counts in 32 bits
	i.Busy -= earlier.Busy
	i.PeerLimited -= earlier.PeerLimited
	i.SendLimited -= earlier.SendLimited
	return i
}

// Add adds what was counted for others.
func (i *TCPInfo) Add(other TCPInfo) {
	i.Connections += other.Connections
	i.Resent += other.Resent
	i.Delivered += other.Delivered
	i.Bytes += other.Bytes
	i.Acks += other.Acks
	i.RTT += other.RTT
	i.MinRTT += other.MinRTT
	i.Window += other.Window
	i.Busy += other.Busy
	i.PeerLimited += other.PeerLimited
	i.SendLimited += other.SendLimited
}
