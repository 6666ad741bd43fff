package sock

import "time"

// Options are the options of a socket. The zero value changes nothing.
type Options struct {
	// bytes, as setsockopt(2) takes them: the kernel doubles the number and, without CAP_NET_ADMIN, limits it
	// (net.core.wmem_max, rmem_max)
	SendBuffer, RecvBuffer int
	DSCP                   int // differentiated services code point, 0 to 63 (RFC 2474)
	// how long a blocking receive polls the device queue before it sleeps (SO_BUSY_POLL)
	BusyPoll   time.Duration
	Congestion string // TCP_CONGESTION; "" leaves the namespace's
	NoDelay    bool   // TCP_NODELAY
}
