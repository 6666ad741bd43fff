package link

import (
	"net"
	"net/netip"
)

// A Neighbour is an entry of the neighbour table: how an address on a link is reached there (ARP, NDP). Those that are
// made are permanent: they are not asked for, do not age, and do not count towards the limits of the table
// (net/core/neighbour.c, neigh_alloc).
type Neighbour struct {
	// Link is the index of the link.
	Link    int
	Address netip.Addr
	// MAC is where the address is; nil for Proxy.
	MAC net.HardwareAddr
	// Proxy makes the host answer for the address on this link, instead of saying where it is.
	Proxy bool
}
