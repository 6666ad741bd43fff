package link

import (
	"errors"
	"net"
	"net/netip"
	"os"
)

// ErrNotFound says that there is no such link, address or route.
var ErrNotFound = errors.New("not found")

// ErrExists says that the link, address or route is there already.
var ErrExists = errors.New("exists already")

// MaxName is the longest name of a link in bytes: IFNAMSIZ, include/uapi/linux/if.h, less the final zero.
const MaxName = 15

// A Link is what the kernel says about a link.
type Link struct {
	Index int
	Name  string
	// Type is the kernel's name of the kind: "veth", "bridge"; "device" for one without a kind of its own, as lo.
	Type string
	MAC  net.HardwareAddr
	// MTU in bytes.
	MTU int
	// Up says that it was set up, Running that it also has a carrier (IFF_RUNNING, RFC 2863).
	Up, Running bool
	// Master is the index of the bridge it is a port of, 0 for none.
	Master int
	// Peer is the index of the other end of a veth, in the namespace where that is.
	Peer int
	// Lower is the index of the link below a macvlan or an ipvlan, in the namespace where that is.
	Lower int
	// Mode is that of a macvlan: one of [MacvlanModes], or "source"; or that of an ipvlan: one of [IPVlanModes].
	Mode string
	// Snooping says whether a bridge looks into multicast.
	Snooping bool
}

// A Bridge is a bridge to make.
type Bridge struct {
	Name string
	// MAC is nil for one the kernel chooses.
	MAC net.HardwareAddr
	// MTU in bytes, 0 for the kernel's.
	MTU int
	// Snooping makes it look into multicast.
	Snooping bool
}

// A Veth is a pair of veth links to make.
type Veth struct {
	Name string
	// MAC and PeerMAC are nil for addresses the kernel chooses.
	MAC net.HardwareAddr
	// MTU in bytes of both ends, 0 for the kernel's.
	MTU int
	// Master is the index of the bridge that the near end becomes a port of, 0 for none.
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
	// MAC is nil for one the kernel chooses.
	MAC net.HardwareAddr
	// MTU in bytes, 0 for that of the link below.
	MTU int
}

// MacvlanModes are the modes of a macvlan as ip-link(8) calls them: in mode bridge those above one link reach each
// other directly, in mode vepa only by a switch behind the link that sends packets back, in mode private not at all,
// and in mode passthru there is only one.
func MacvlanModes() []string { return []string{"bridge", "private", "vepa", "passthru"} }

// A Route is a route of the main table.
type Route struct {
	// To is where it leads; a prefix of 0 bits is the default route.
	To netip.Prefix
	// Via is the gateway, invalid for none.
	Via netip.Addr
	// Link is the index of the link, 0 to let the kernel choose.
	Link int
	// Encap is what it tells an external tunnel device about its packets; the zero value is nothing.
	Encap Encap
}
