package link

import (
	"net"
	"net/netip"
)

// A Neighbour is an entry of the neighbour table: how to reach an address on a link (ARP, NDP). The entries made here
// are permanent: they need no resolution, do not age, and do not count towards the limits of the table
// (net/core/neighbour.c, neigh_alloc).
type Neighbour struct {
	// Link is the index of the link.
	Link    int
	Address netip.Addr
	// MAC is the neighbour's MAC address; nil for Proxy.
	MAC net.HardwareAddr
	// Proxy makes the host answer for the address on this link.
	Proxy bool
}
