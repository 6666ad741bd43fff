package ethtool

// An Offload is work that a link does for the kernel, or that the kernel defers until just before the link.
type Offload string

// The offloads, with the short names of ethtool(8).
const (
	TX  Offload = "tx"  // checksums of sent packets
	RX  Offload = "rx"  // checksums of received packets
	SG  Offload = "sg"  // frames in several pieces of memory
	TSO Offload = "tso" // TCP segments larger than the MTU
	GSO Offload = "gso" // the same, done by the kernel just before the link
	GRO Offload = "gro" // received segments are merged
)

// Offloads returns all offloads except SG, which is not part of any setting.
func Offloads() []Offload { return []Offload{TX, RX, TSO, GSO, GRO} }
