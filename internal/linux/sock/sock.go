package sock

import "syscall"

// Socket is an open socket. It blocks, is not registered with the Go runtime's poller, and belongs to the network
// namespace in which it was made, so that any thread may use it.
type Socket struct{ FD int }

// Errno is an error number; 0 means no error.
type Errno = syscall.Errno

// Facts holds what the kernel granted to a socket.
type Facts struct {
	// bytes, as the kernel counts (getsockopt SO_SNDBUF: twice the requested number)
	SendBuffer int    `json:"send_buffer"`
	RecvBuffer int    `json:"recv_buffer"`          // bytes, in the same way
	MSS        int    `json:"mss,omitempty"`        // bytes, TCP only
	Congestion string `json:"congestion,omitempty"` // TCP only
	Raw        bool   `json:"raw,omitempty"`        // ICMP only: not one of the kernel's own echo sockets, see [Ping]
}

// A Conn is a socket of the packages net or os, for [ReceiveQueue].
type Conn = syscall.Conn
