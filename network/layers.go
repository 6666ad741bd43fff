package network

import (
	"fmt"
	"slices"
	"strings"
)

// A Layer is what carries packets between hosts, or the containers that send them.
type Layer struct {
	// Name is "underlay", that of a part, or "containers".
	Name string `json:"name"`
	// MTU in bytes: the largest IP packet that it carries whole, or that containers send.
	MTU int `json:"mtu"`
	// Size is the length in bytes of a packet of containers of full size on the layer below, and Added what that is more
	// than on this one. Neither is known of containers and the underlay.
	Size  int `json:"size,omitempty"`
	Added int `json:"added,omitempty"`
	// Source says what was added, and where that stands.
	Source string `json:"source,omitempty"`
	// Outer is the family of its packets on the layer below, and Wire the protocols: "VXLAN (UDP to port 4789)".
	Outer string   `json:"outer,omitempty"`
	Wire  []string `json:"wire,omitempty"`
	// Cipher is what it protects packets with, "" if it does not.
	Cipher string `json:"cipher,omitempty"`
	// Medium says what the underlay does besides carrying packets: "1000 Mbit/s, 1 router".
	Medium string `json:"medium,omitempty"`
}

// Between returns the layers between the hosts of a lab that was composed, from the underlay up to the containers.
// There are none in a lab of one host.
func (l Lab) Between() []Layer {
	if len(l.Hosts) < 2 {
		return nil
	}
	size := l.MTU
	list := []Layer{{Name: "containers", MTU: size}}
	all := l.spans()
	for _, s := range slices.Backward(all[1:]) {
		one := Layer{
			Name: s.Name, MTU: s.MTU, Size: s.Overhead.On(size, s.MTU), Source: s.Overhead.Source, Outer: s.Outer,
			Cipher: s.Cipher,
		}
		one.Added, size = one.Size-size, one.Size
		for _, p := range s.Wire {
			one.Wire = append(one.Wire, p.String())
		}
		list = append(list, one)
	}
	medium := l.Underlay
	medium.MTU = 0 // it has its own
	list = append(list, Layer{Name: all[0].Name, MTU: all[0].MTU, Medium: medium.String()})
	slices.Reverse(list)
	return list
}

// String says what the layer is, in a line without its name.
func (l Layer) String() string {
	var parts []string
	if len(l.Wire) > 0 {
		parts = append(parts, strings.Join(l.Wire, " and ")+" over "+strings.Replace(l.Outer, "ip", "IP", 1))
	}
	if l.Cipher != "" {
		parts = append(parts, l.Cipher)
	}
	if l.Added > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes added", l.Added))
	}
	parts = append(parts, fmt.Sprintf("MTU %d", l.MTU))
	if l.Medium != "" {
		parts = append(parts, l.Medium)
	}
	return strings.Join(parts, ", ")
}
