package geneve

import (
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/tunnel"
)

const (
	// standard is the port that IANA has assigned: RFC 8926, section 3.3.
	standard = 6081
	// id is the virtual network identifier. All labs have the same: they share no underlay.
	id = 100
	// header is the length in bytes of the headers of UDP, GENEVE without options, and the Ethernet frame inside:
	// RFC 8926, sections 3.1 to 3.4.
	header = 8 + 8 + 14
	// impl is the parameter that says who encapsulates.
	impl = "impl"
	// device is the name of the link.
	device = "geneve0"
)

// Tunnel is the tunnel "geneve".
type Tunnel struct{}

// Describe says what it is.
func (Tunnel) Describe() part.Description {
	return part.Description{
		Name:           "geneve",
		Summary:        "a GENEVE device on each host, for which routes say where packets go (encap), or Open vSwitch",
		Implementation: "kernel", Params: append(part.List{tunnel.Impl()}, tunnel.UDP(standard)...),
	}
}

// step makes the links of a host.
type step = tunnel.Frames[Device]

// Steps returns the kinds of steps of its own.
func (Tunnel) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{step{}.Kind(): func() host.Step { return new(step) }}
}

// Check wants a kernel that has GENEVE, or Open vSwitch.
func (Tunnel) Check(p part.Params) error { return step{Impl: p[impl], Type: "geneve"}.Check() }

// Carry puts a device on each host.
func (Tunnel) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	s, err := tunnel.Read(p)
	if err != nil {
		return network.Span{}, err
	}
	bytes, ip := tunnel.Header(s.Outer)
	top := lab.Above("geneve", 2, s.Outer, device, network.Overhead{
		Bytes: bytes + header, Source: fmt.Sprintf("%d %s, 8 UDP, 8 GENEVE, 14 Ethernet (RFC 8926, sections 3.1 to 3.4)",
			bytes, ip),
	})
	of, err := tunnel.On(lab.Top(), "geneve", p[impl])
	if err != nil {
		return top, err
	}
	top.Wire = []network.Protocol{{Name: "GENEVE", Number: network.UDP, Port: int(s.Port)}}
	top.Guards.Claims = network.Carries("GENEVE", tunnel.ByOVS(p))
	for i := range lab.Hosts {
		top.Steps[i] = []host.Step{step{
			Impl: of, Type: "geneve",
			Device: Device{Name: device, MAC: top.Reach[i][i].MAC, MTU: top.MTU, Port: s.Port},
			Switch: tunnel.Switched(lab, top, i, "geneve", id, s),
		}}
	}
	lab.Mesh(top)
	if !tunnel.ByOVS(p) { // whose links pay no attention to it
		tunnel.Encapsulate(lab, top, id, s)
	}
	tunnel.Counted(top)
	return top, nil
}
