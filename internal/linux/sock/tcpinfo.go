package sock

// TCPInfo holds the kernel's counters of TCP connections as senders (struct tcp_info, include/uapi/linux/tcp.h): of one
// connection since it was opened, or the sum of several since some moment. Fields that are not counters have their last
// value.
type TCPInfo struct {
	Connections int   `json:"connections"`
	Resent      int64 `json:"resent"`    // retransmitted segments
	Delivered   int64 `json:"delivered"` // segments acknowledged by the peer
	Bytes       int64 `json:"bytes"`     // bytes acknowledged by the peer (tcpi_bytes_acked)
	Acks        int64 `json:"acks"`      // received segments without data (tcpi_segs_in − tcpi_data_segs_in)
	RTT         int64 `json:"rtt"`       // ns, smoothed, of all connections together
	// ns, the shortest of the last five minutes (tcp_min_rtt_wlen), of all connections together
	MinRTT int64 `json:"min_rtt"`
	Window int64 `json:"window"` // segments: the congestion window
	Busy   int64 `json:"busy"`   // ns in which data was unacknowledged, or waited to be sent
	// part of Busy, in ns, in which the receive window of the peer was full (tcpi_rwnd_limited)
	PeerLimited int64 `json:"peer_limited"`
	// part of Busy, in ns, in which the send buffer was too small to fill the congestion window (tcpi_sndbuf_limited)
	SendLimited int64 `json:"send_limited"`
}

// Since returns the counts since an earlier reading.
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

// Add adds the counts of other connections.
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
