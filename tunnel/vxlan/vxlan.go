package vxlan

import (
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/tunnel"
)

// Parameters, and what peers can be.
const (
	impl   = "impl"
	kernel = "kernel"
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
		Name: "vxlan", Summary: "a VXLAN device on each host, which learns and floods nothing, or Open vSwitch",
		Implementation: "kernel",
		Params: append(part.List{tunnel.Impl(), {
			Name: peers, Default: fdb, Values: []string{fdb, routes},
			Summary: "how a device knows the other hosts: fdb: a permanent forwarding entry for the MAC address of each " +
				"other device; routes: the device is external, and the routes say where packets go (encap)",
		}}, tunnel.UDP(standard)...),
	}
}

// step makes the links of a host.
type step = tunnel.Frames[Device]

// Steps returns the kinds of steps of its own.
func (Tunnel) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{step{}.Kind(): func() host.Step { return new(step) }}
}

// Check wants a kernel that has VXLAN, or Open vSwitch.
func (Tunnel) Check(p part.Params) error {
	of, err := by(p)
	if err != nil {
		return err
	}
	return step{Impl: of, Type: "vxlan"}.Check()
}

// by returns the parameter impl. Routes can only tell a device of the kernel where packets go.
func by(p part.Params) (string, error) {
	if p[peers] != routes {
		return p[impl], nil
	}
	if tunnel.ByOVS(p) {
		return "", fmt.Errorf("%s=%s with %s=%s: routes tell only a device of the kernel where packets go (hint: leave %s "+
			"at %s)", impl, p[impl], peers, routes, peers, fdb)
	}
	return kernel, nil
}

// Carry puts a device on each host.
func (Tunnel) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	s, err := tunnel.Read(p)
	if err != nil {
		return network.Span{}, err
	}
	of, err := by(p)
	if err != nil {
		return network.Span{}, err
	}
	bytes, ip := tunnel.Header(s.Outer)
	below, top := lab.Top(), lab.Above("vxlan", 2, s.Outer, device, network.Overhead{
		Bytes: bytes + header, Source: fmt.Sprintf("%d %s, 8 UDP, 8 VXLAN, 14 Ethernet (RFC 7348, section 5)", bytes, ip),
	})
	if of, err = tunnel.On(below, "vxlan", of); err != nil {
		return top, err
	}
	top.Wire = []network.Protocol{{Name: "VXLAN", Number: network.UDP, Port: int(s.Port)}}
	top.Guards.Claims = network.Carries("VXLAN", tunnel.ByOVS(p))
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
		top.Steps[i] = []host.Step{step{
			Impl: of, Type: "vxlan", Device: d, Switch: tunnel.Switched(lab, top, i, "vxlan", id, s),
		}}
	}
	lab.Mesh(top)
	tunnel.Counted(top)
	if p[peers] == routes {
		tunnel.Encapsulate(lab, top, id, s)
	}
	return top, nil
}
