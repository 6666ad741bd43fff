package sock

// MostSegments is how many datagrams one send can be cut into on every kernel that cuts (UDP_MAX_SEGMENTS,
// include/linux/udp.h: 64 since 4.18, 128 since 6.9).
const MostSegments = 64

// mostAddress is how long a socket address of either family may be: struct sockaddr_in6 (ipv6(7)).
const mostAddress = 28

// An Address is a socket address as the kernel writes and reads it: where a datagram came from, where a connection is
// to go ([NewAddress]).
type Address struct {
	raw [mostAddress]byte
	len uint32
}
