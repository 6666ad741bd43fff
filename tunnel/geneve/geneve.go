package geneve

import (
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
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
	// device is the name of the link.
	device = "geneve0"
)

// Tunnel is the tunnel "geneve".
type Tunnel struct{}

// Describe says what it is.
func (Tunnel) Describe() part.Description {
	return part.Description{
		Name: "geneve", Summary: "a GENEVE device on each host, for which routes say where packets go (encap)",
		Implementation: "kernel", Params: tunnel.UDP(standard),
	}
}

// Steps returns the kinds of steps of its own.
func (Tunnel) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{Device{}.Kind(): func() host.Step { return new(Device) }}
}

// Check wants a kernel that has GENEVE.
func (Tunnel) Check(part.Params) error {
	return link.CheckKind("geneve", "load the kernel's module geneve, or choose vxlan, which adds as many bytes")
}

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
	top.Wire = []network.Protocol{{Name: "GENEVE", Number: network.UDP, Port: int(s.Port)}}
	for i := range lab.Hosts {
		top.Steps[i] = []host.Step{Device{Name: device, MAC: top.Reach[i][i].MAC, MTU: top.MTU, Port: s.Port}}
	}
	lab.Mesh(top)
	tunnel.Encapsulate(lab, top, id, s)
	return top, nil
}
