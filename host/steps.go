package host

import (
	"fmt"
	"strings"
)

// A Namespace makes a network namespace, with its loopback link up, at Dir/Name of the [Kernel].
type Namespace struct {
	Name string `json:"name"`
}

// A Bridge makes a Linux bridge that is up, without the spanning tree protocol.
type Bridge struct {
	// NS is its namespace.
	NS   string `json:"ns,omitempty"`
	Name string `json:"name"`
	// MAC is the address of the bridge; "" leaves it to the kernel.
	MAC string `json:"mac,omitempty"`
	// MTU in bytes; 0 leaves it to the kernel.
	MTU int `json:"mtu,omitempty"`
	// Snooping switches on IGMP and MLD snooping, which is the kernel's default; otherwise the bridge floods multicast.
	Snooping bool `json:"snooping,omitempty"`
	// Addresses are in CIDR notation, of either family.
	Addresses []string `json:"addresses,omitempty"`
}

// A Veth makes a pair of veth links, both up. The peer is made directly in its namespace, and stays there unless
// PeerMoves is set.
type Veth struct {
	// NS and Name are the namespace and the name of the near end.
	NS   string `json:"ns,omitempty"`
	Name string `json:"name"`
	// MAC and PeerMAC are the addresses of the ends; "" leaves them to the kernel.
	MAC string `json:"mac,omitempty"`
	// MTU in bytes of both ends; 0 leaves it to the kernel.
	MTU int `json:"mtu,omitempty"`
	// Master is the bridge in NS of which the near end is a port; "" for none.
	Master string `json:"master,omitempty"`
	// PeerNS and PeerName are the namespace and the name of the far end.
	PeerNS   string `json:"peer_ns,omitempty"`
	PeerName string `json:"peer_name"`
	PeerMAC  string `json:"peer_mac,omitempty"`
	// PeerMoves is true if the far end moves to another namespace, so that only the near one is verified. See
	// [MoveLink].
	PeerMoves bool `json:"peer_moves,omitempty"`
	// Addresses and PeerAddresses are in CIDR notation, of either family.
	Addresses     []string `json:"addresses,omitempty"`
	PeerAddresses []string `json:"peer_addresses,omitempty"`
}

// A Link configures an existing link: the loopback link, or a link that the underlay made. Undoing it restores the
// former configuration.
type Link struct {
	NS   string `json:"ns,omitempty"`
	Name string `json:"name"`
	// MAC is the address to set; "" leaves it unchanged.
	MAC string `json:"mac,omitempty"`
	// MTU in bytes; 0 leaves it unchanged.
	MTU int `json:"mtu,omitempty"`
	// Addresses are added, in CIDR notation, of either family.
	Addresses []string `json:"addresses,omitempty"`
	// Up sets the link up; otherwise its state does not change.
	Up bool `json:"up,omitempty"`
}

// A Route adds a route to the main table.
type Route struct {
	NS string `json:"ns,omitempty"`
	// To is a prefix in CIDR notation: "0.0.0.0/0" or "::/0" is the default route.
	To string `json:"to"`
	// Via is the address of the gateway; "" for a route to a link.
	Via string `json:"via,omitempty"`
	// Dev is the name of the link; if "", the kernel derives it from Via.
	Dev string `json:"dev,omitempty"`
	// Encap is what the route passes to the external tunnel device Dev; the zero value is nothing.
	Encap Encap `json:"encap,omitzero"`
}

// An Encap is what a route passes to an external tunnel device about its packets (ip-route(8), encap ip and encap ip6).
type Encap struct {
	// ID is the identifier of the virtual network (VNI).
	ID uint32 `json:"id"`
	// Local and Remote are the source and destination of the device's packets, of one family.
	Local  string `json:"local"`
	Remote string `json:"remote"`
	// Checksum adds a UDP checksum to the packets of the device.
	Checksum bool `json:"checksum,omitempty"`
}

// A Sysctl sets a variable below /proc/sys, as seen inside a namespace. Undoing it restores the former value.
type Sysctl struct {
	NS string `json:"ns,omitempty"`
	// Key is written with dots: "net.ipv4.ip_forward". A dot inside an element is written as a slash.
	Key   string `json:"key"`
	Value string `json:"value"`
	// IfPresent leaves the variable out if it does not exist when the step is applied, because this kernel lacks the
	// feature (bridge-nf-call-iptables without br_netfilter). One that was there has to stay.
	IfPresent bool `json:"if_present,omitempty"`
}

// Kind returns "namespace".
func (Namespace) Kind() string { return "namespace" }

// Kind returns "bridge".
func (Bridge) Kind() string { return "bridge" }

// Kind returns "veth".
func (Veth) Kind() string { return "veth" }

// Kind returns "link".
func (Link) Kind() string { return "link" }

// Kind returns "route".
func (Route) Kind() string { return "route" }

// Kind returns "sysctl".
func (Sysctl) Kind() string { return "sysctl" }

// String describes the step in plain words.
func (n Namespace) String() string { return "namespace " + n.Name }

// String describes the step in plain words.
func (b Bridge) String() string {
	s := "bridge " + at(b.Name, b.NS) + traits(b.MAC, b.MTU, b.Addresses)
	if b.Snooping {
		s += ", multicast snooping"
	}
	return s
}

// String describes the step in plain words.
func (v Veth) String() string {
	s := "veth " + at(v.Name, v.NS) + traits(v.MAC, v.MTU, v.Addresses)
	if v.Master != "" {
		s += ", port of " + v.Master
	}
	s += "; peer " + at(v.PeerName, v.PeerNS) + traits(v.PeerMAC, 0, v.PeerAddresses)
	if v.PeerMoves {
		s += ", to be moved"
	}
	return s
}

// String describes the step in plain words.
func (l Link) String() string {
	s := "link " + at(l.Name, l.NS) + traits(l.MAC, l.MTU, l.Addresses)
	if l.Up {
		s += ", up"
	}
	return s
}

// String describes the step in plain words.
func (r Route) String() string {
	s := "route to " + r.To
	if r.Via != "" {
		s += " via " + r.Via
	}
	if r.Dev != "" {
		s += " through " + r.Dev
	}
	if r.Encap != (Encap{}) {
		s += ", " + r.Encap.String()
	}
	return s + in(r.NS)
}

// String describes it in a few words.
func (e Encap) String() string {
	s := fmt.Sprintf("encap id %d from %s to %s", e.ID, e.Local, e.Remote)
	if e.Checksum {
		s += " with checksum"
	}
	return s
}

// String describes the step in plain words.
func (s Sysctl) String() string {
	text := "sysctl " + s.Key + "=" + s.Value + in(s.NS)
	if s.IfPresent {
		text += ", if this kernel has it"
	}
	return text
}

func at(name, ns string) string { return name + in(ns) }

// into returns the end of the text of a step that moves something into a namespace.
func into(ns string) string {
	if ns == "" {
		return ""
	}
	return " into " + ns
}

func in(ns string) string {
	if ns == "" {
		return ""
	}
	return " in " + ns
}

func traits(mac string, mtu int, addresses []string) string {
	var b strings.Builder
	if len(addresses) > 0 {
		b.WriteString(" with " + strings.Join(addresses, ", "))
	}
	if mac != "" {
		b.WriteString(", mac " + mac)
	}
	if mtu != 0 {
		fmt.Fprintf(&b, ", mtu %d", mtu)
	}
	return b.String()
}
