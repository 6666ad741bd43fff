package link

import (
	"net"
	"os"
)

// A Netkit is a pair of netkit links of mode l2 to make. It is like a veth, but packets that its far end sends pass
// through the eBPF programs that its near end has for it (drivers/net/netkit.c, Linux 6.7).
type Netkit struct {
	Name string
	// MAC and PeerMAC are the addresses; nil lets the kernel choose.
	MAC net.HardwareAddr
	// MTU in bytes of both ends; 0 lets the kernel choose.
	MTU      int
	PeerName string
	PeerMAC  net.HardwareAddr
	// PeerNS is the namespace in which the peer is made.
	PeerNS *os.File
}
