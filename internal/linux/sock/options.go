package sock

import "time"

// Options are what can be asked of a socket. The zero value asks for nothing: the socket is as the kernel makes it.
type Options struct {
	// bytes, as setsockopt(2) takes them: the kernel doubles the number, and caps it (net.core.wmem_max, rmem_max) without
	// CAP_NET_ADMIN
	SendBuffer, RecvBuffer int
	DSCP                   int // differentiated services code point, 0 to 63 (RFC 2474)
	// how long a blocking receive asks the device queue before it sleeps (SO_BUSY_POLL)
	BusyPoll   time.Duration
	Congestion string // TCP_CONGESTION; "" leaves the namespace's
	NoDelay    bool   // TCP_NODELAY
}
