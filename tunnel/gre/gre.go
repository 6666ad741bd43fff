package gre

import (
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/tunnel"
)

// name is that of the tunnel.
const name = "gre"

// Tunnel is the tunnel "gre".
type Tunnel struct{}

// Describe says what it is.
func (Tunnel) Describe() part.Description {
	return part.Description{
		Name: name, Summary: "IP packets in GRE, by the kernel or by eBPF", Implementation: "kernel",
		Params: tunnel.IPParams(), Near: near,
	}
}

// Steps are the kinds of steps of its own.
func (Tunnel) Steps() map[string]func() host.Step { return tunnel.IPSteps() }

// Check wants the kernel's device, or tcx.
func (Tunnel) Check(p part.Params) error { return tunnel.CheckIP(true, p) }

// Carry puts a link for each other host on each host.
func (Tunnel) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	overhead := network.Overhead{Bytes: 24, Source: "20 IPv4, 4 GRE (RFC 2784, section 2)"}
	if p["outer"] == "ipv6" {
		overhead = network.Overhead{Bytes: 44, Source: "40 IPv6, 4 GRE (RFC 7676, section 3)"}
	}
	return tunnel.CarryIP(lab, name, true, p, overhead)
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{{
		Names: []string{"ip6gre", "gretap", "nvgre"},
		Why:   "it carries IP packets in GRE, and no Ethernet frames",
	}}
}
