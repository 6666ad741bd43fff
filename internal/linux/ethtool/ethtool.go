package ethtool

// An Offload is work that a link does for the kernel, or the kernel puts off until a link would have to do it.
type Offload string

// The offloads, as ethtool(8) calls them in short.
const (
	TX  Offload = "tx"  // checksums of what is sent
	RX  Offload = "rx"  // checksums of what is received
	SG  Offload = "sg"  // frames that stand in memory in pieces
	TSO Offload = "tso" // segments of TCP that are larger than the MTU
	GSO Offload = "gso" // the same by the kernel, just before the link
	GRO Offload = "gro" // segments that are received become one
)

// Offloads are all of them but SG, which is no part of any setting.
func Offloads() []Offload { return []Offload{TX, RX, TSO, GSO, GRO} }
