package ipip

import (
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/tunnel"
)

// name is that of the tunnel.
const name = "ipip"

// Tunnel is the tunnel "ipip".
type Tunnel struct{}

// Describe says what it is.
func (Tunnel) Describe() part.Description {
	return part.Description{
		Name: name, Summary: "IP packets in IP packets, by the kernel or by eBPF", Implementation: "kernel",
		Params: tunnel.IPParams(), Near: near,
	}
}

// Steps are the kinds of steps of its own.
func (Tunnel) Steps() map[string]func() host.Step { return tunnel.IPSteps() }

// Check wants the kernel's device, or tcx.
func (Tunnel) Check(p part.Params) error { return tunnel.CheckIP(false, p) }

// Carry puts a link for each other host on each host.
func (Tunnel) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	overhead := network.Overhead{Bytes: 20, Source: "20 IPv4 (RFC 2003, section 3)"}
	if p["outer"] == "ipv6" {
		overhead = network.Overhead{Bytes: 40, Source: "40 IPv6 (RFC 2473, section 3)"}
	}
	return tunnel.CarryIP(lab, name, false, p, overhead)
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{{
		Names: []string{"sit", "ip6tnl", "ip-in-ip", "ipinip", "calico"},
		Why:   "it carries packets of IPv4 and of IPv6, over IPv4 or, with outer=ipv6, over IPv6",
	}}
}
