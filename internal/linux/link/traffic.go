package link

import (
	"net"
	"net/netip"
)

// A Traffic holds the numbers of packets that a link has carried since it was made.
type Traffic struct {
	Name string
	// Master is the name of the link of which it is a port; "" for none: a bridge, or the datapath of an Open vSwitch.
	Master string
	// MasterType is the kernel's name of the master's kind, as in [Link.Type].
	MasterType string
	// Received and Sent are numbers of packets. A large TCP or UDP segment that is cut later counts as one.
	Received, Sent uint64
	// ReceivedBytes and SentBytes are their lengths.
	ReceivedBytes, SentBytes uint64
	// Dropped is how many packets it has dropped: received ones (rx_dropped), those for which it had no buffer
	// (rx_missed_errors), and those that it was to send (tx_dropped, include/uapi/linux/if_link.h).
	Dropped uint64
	// Index is its number in the namespace.
	Index int
	// Unread is how many packets a program that has opened the link through /dev/net/tun never got, because its queue was
	// full (tun_net_xmit, drivers/net/tun.c).
	Unread uint64
}

// A Next is the next hop of packets that leave a namespace.
type Next struct {
	// Link is the name of the link.
	Link string
	// Via is the neighbour that receives them: a gateway, or the destination itself.
	Via netip.Addr
	// MAC is the address of the neighbour in the neighbour table; nil if there is none, as on links without ARP.
	MAC net.HardwareAddr
}
