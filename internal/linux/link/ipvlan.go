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
	// MTU in bytes; 0 for that of the link below.
	MTU int
}

// IPVlanModes returns the modes of an ipvlan, with the names of ip-link(8). In mode l2, the link is a neighbour of all
// others on the segment. In mode l3, the namespace of the link below routes its packets. In mode l3s, packets
// that come by that link pass netfilter there, and not in the namespace of the ipvlan.
func IPVlanModes() []string { return []string{"l2", "l3", "l3s"} }
