package link

import (
	"errors"
	"net"
	"net/netip"
	"os"
)

// ErrNotFound means that there is no such link, address or route.
var ErrNotFound = errors.New("not found")

// ErrExists means that the link, address or route already exists.
var ErrExists = errors.New("exists already")

// MaxName is the longest name of a link in bytes: IFNAMSIZ, include/uapi/linux/if.h, minus the final zero.
const MaxName = 15

// A Link holds what the kernel reports about a link.
type Link struct {
	Index int
	Name  string
	// Type is the kernel's name of the kind: "veth", "bridge"; "device" for a link without a kind, such as lo.
	Type string
	MAC  net.HardwareAddr
	// MTU in bytes.
	MTU int
	// Up says that the link was set up, Running that it also has a carrier (IFF_RUNNING, RFC 2863).
	Up, Running bool
	// Master is the index of the bridge of which it is a port; 0 for none.
	Master int
	// Peer is the index of the other end of a veth, in the namespace of that end.
	Peer int
	// Lower is the index of the link below a macvlan or an ipvlan, in the namespace of that link.
	Lower int
	// Mode is the mode of a macvlan, one of [MacvlanModes] or "source", or the mode of an ipvlan, one of [IPVlanModes].
	Mode string
	// Snooping says whether a bridge has multicast snooping.
	Snooping bool
}

// A Bridge is a bridge to make.
type Bridge struct {
	Name string
	// MAC is the address; nil lets the kernel choose.
	MAC net.HardwareAddr
	// MTU in bytes; 0 lets the kernel choose.
	MTU int
	// Snooping switches multicast snooping on.
	Snooping bool
}

// A Veth is a pair of veth links to make.
type Veth struct {
	Name string
	// MAC and PeerMAC are the addresses; nil lets the kernel choose.
	MAC net.HardwareAddr
	// MTU in bytes of both ends; 0 lets the kernel choose.
	MTU int
	// Master is the index of the bridge of which the near end becomes a port; 0 for none.
	Master   int
	PeerName string
	PeerMAC  net.HardwareAddr
	// PeerNS is the namespace in which the peer is made.
	PeerNS *os.File
}

// A Macvlan is a macvlan link to make.
type Macvlan struct {
	Name string
	// NS is the namespace in which it is made.
	NS *os.File
	// Lower is the index of the link below it, in the namespace of the [Handle].
	Lower int
	// Mode is one of [MacvlanModes].
	Mode string
	// MAC is the address; nil lets the kernel choose.
	MAC net.HardwareAddr
	// MTU in bytes; 0 for that of the link below.
	MTU int
}

// MacvlanModes returns the modes of a macvlan, with the names of ip-link(8). In mode bridge, macvlans on one link reach
// each other directly. In mode vepa, they do so only through a switch behind the link that sends packets back. In mode
// private, they do not reach each other, and in mode passthru there is only one.
func MacvlanModes() []string { return []string{"bridge", "private", "vepa", "passthru"} }

// A Route is a route of the main table.
type Route struct {
	// To is the destination; a prefix of 0 bits is the default route.
	To netip.Prefix
	// Via is the gateway; invalid for none.
	Via netip.Addr
	// Link is the index of the link; 0 lets the kernel choose.
	Link int
	// Encap is what it passes to an external tunnel device about its packets; the zero value is nothing.
	Encap Encap
}
