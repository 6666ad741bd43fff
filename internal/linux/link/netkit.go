package link

import (
	"net"
	"os"
)

// A Netkit is a pair of netkit links of mode l2 to make: as a veth, but what its far end sends goes through the eBPF
// programs that its near end has for it (drivers/net/netkit.c, Linux 6.7).
type Netkit struct {
	Name string
	// MAC and PeerMAC are nil for addresses the kernel chooses.
	MAC net.HardwareAddr
	// MTU in bytes of both ends, 0 for the kernel's.
	MTU      int
	PeerName string
	PeerMAC  net.HardwareAddr
	// PeerNS is the namespace in which the peer is made.
	PeerNS *os.File
}
