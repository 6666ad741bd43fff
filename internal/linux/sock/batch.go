package sock

// MostSegments is the largest number of datagrams into which every kernel with segmentation can cut one send
// (UDP_MAX_SEGMENTS, include/linux/udp.h: 64 since 4.18, 128 since 6.9).
const MostSegments = 64

// mostAddress is the largest length of a socket address of either family: struct sockaddr_in6 (ipv6(7)).
const mostAddress = 28

// An Address is a socket address in the kernel's format: the source of a datagram, or the destination of a connection
// ([NewAddress]).
type Address struct {
	raw [mostAddress]byte
	len uint32
}
