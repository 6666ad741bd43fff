package sock

import "syscall"

// Socket is an open socket. It blocks, is not known to the Go runtime's poller, and belongs for life to the network
// namespace in which it was made: it may be used from any thread.
type Socket struct{ FD int }

// Errno is an error number; 0 is none.
type Errno = syscall.Errno

// Facts is what the kernel granted a socket.
type Facts struct {
	// bytes, as the kernel counts (getsockopt SO_SNDBUF: twice what was asked)
	SendBuffer int    `json:"send_buffer"`
	RecvBuffer int    `json:"recv_buffer"`          // bytes, likewise
	MSS        int    `json:"mss,omitempty"`        // bytes, TCP only
	Congestion string `json:"congestion,omitempty"` // TCP only
	Raw        bool   `json:"raw,omitempty"`        // ICMP only: not one of the kernel's own echo sockets, see [Ping]
}
