package vxlan

import (
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/tunnel"
)

// The parameter peers, and what it can be.
const (
	peers  = "peers"
	fdb    = "fdb"
	routes = "routes"
)

const (
	// standard is the port that IANA has assigned: RFC 7348, section 5.
	standard = 4789
	// id is the VXLAN network identifier. All labs have the same: they share no underlay.
	id = 100
	// header is the length in bytes of the headers of UDP, VXLAN and the Ethernet frame inside: RFC 7348, section 5.
	header = 8 + 8 + 14
	// device is the name of the link.
	device = "vxlan0"
)

// Tunnel is the tunnel "vxlan".
type Tunnel struct{}

// Describe says what it is.
func (Tunnel) Describe() part.Description {
	return part.Description{
		Name: "vxlan", Summary: "a VXLAN device on each host, which learns and floods nothing", Implementation: "kernel",
		Params: append(part.List{{
			Name: peers, Default: fdb, Values: []string{fdb, routes},
			Summary: "how a device knows the other hosts: fdb: a permanent forwarding entry for the MAC address of each " +
				"other device; routes: the device is external, and the routes say where packets go (encap)",
		}}, tunnel.UDP(standard)...),
	}
}

// Steps returns the kinds of steps of its own.
func (Tunnel) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{Device{}.Kind(): func() host.Step { return new(Device) }}
}

// Check wants a kernel that has VXLAN.
func (Tunnel) Check(part.Params) error {
	return link.CheckKind("vxlan", "load the kernel's module vxlan, or measure without a tunnel")
}

// Carry puts a device on each host.
func (Tunnel) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	s, err := tunnel.Read(p)
	if err != nil {
		return network.Span{}, err
	}
	bytes, ip := tunnel.Header(s.Outer)
	below, top := lab.Top(), lab.Above("vxlan", 2, s.Outer, device, network.Overhead{
		Bytes: bytes + header, Source: fmt.Sprintf("%d %s, 8 UDP, 8 VXLAN, 14 Ethernet (RFC 7348, section 5)", bytes, ip),
	})
	top.Wire = []network.Protocol{{Name: "VXLAN", Number: network.UDP, Port: int(s.Port)}}
	for i := range lab.Hosts {
		d := Device{
			Name: device, MAC: top.Reach[i][i].MAC, MTU: top.MTU, Port: s.Port, ID: id,
			Local: tunnel.At(below.Reach[i][i], s.Outer).String(), Checksum: s.Checksum,
		}
		if p[peers] == routes {
			d.ID, d.Local, d.Checksum, d.External = 0, "", false, true
		}
		for j := range lab.Hosts {
			if j != i && !d.External {
				d.Peers = append(d.Peers, Peer{MAC: top.Reach[i][j].MAC, At: tunnel.At(below.Reach[i][j], s.Outer).String()})
			}
		}
		top.Steps[i] = []host.Step{d}
	}
	lab.Mesh(top)
	if p[peers] == routes {
		tunnel.Encapsulate(lab, top, id, s)
	}
	return top, nil
}
