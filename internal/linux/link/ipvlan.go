package link

import "os"

// An IPVlan is an ipvlan link to make.
type IPVlan struct {
	Name string
	// NS is the namespace in which it is made.
	NS *os.File
	// Lower is the index of the link below it, in the namespace of the [Handle].
	Lower int
	// Mode is one of [IPVlanModes].
	Mode string
	// MTU in bytes, 0 for that of the link below.
	MTU int
}

// IPVlanModes are the modes of an ipvlan as ip-link(8) calls them: in mode l2 it is a neighbour of all on the segment,
// in mode l3 its packets are routed by the namespace of the link below, and in mode l3s those that come pass netfilter
// there, too.
func IPVlanModes() []string { return []string{"l2", "l3", "l3s"} }
