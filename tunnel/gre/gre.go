package gre

import (
	"fmt"
	"maps"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/tunnel"
)

// name is that of the tunnel.
const name = "gre"

// Parameters, and what they can be.
const (
	impl = "impl"
	ebpf = "ebpf"
	ovs  = "ovs"

	inner    = "inner"
	ip       = "ip"
	ethernet = "ethernet"
)

// Tunnel is the tunnel "gre".
type Tunnel struct{}

// Describe says what it is.
func (Tunnel) Describe() part.Description {
	params := tunnel.IPParams()
	params[0].Values = append(params[0].Values, ovs)
	params[0].Summary = "what encapsulates: the kernel's device, eBPF programs (IP packets) or Open vSwitch in " +
		"userspace (Ethernet frames), or auto: the device if the kernel has it"
	return part.Description{
		Name: name, Summary: "IP packets or Ethernet frames in GRE, by the kernel, by eBPF or by Open vSwitch",
		Implementation: "kernel", Near: near,
		Params: append(part.List{{
			Name: inner, Default: ip, Values: []string{ip, ethernet},
			Summary: "what is in GRE: IP packets, or Ethernet frames, as of the kernel's gretap",
		}}, params...),
	}
}

// Steps are the kinds of steps of its own.
func (Tunnel) Steps() map[string]func() host.Step {
	steps := tunnel.IPSteps()
	maps.Copy(steps, tunnel.FrameSteps())
	return steps
}

// Check wants the kernel's device, or what else encapsulates.
func (Tunnel) Check(p part.Params) error {
	if err := fits(p); err != nil {
		return err
	}
	if p[inner] == ethernet {
		return tunnel.CheckFrames(p)
	}
	return tunnel.CheckIP(true, p)
}

// fits says whether what encapsulates takes what is inside.
func fits(p part.Params) error {
	switch {
	case p[inner] == ethernet && p[impl] == ebpf:
		return unfit("eBPF programs carry IP packets (valid: auto, kernel, %s)", p, ovs)
	case p[inner] != ethernet && p[impl] == ovs:
		return unfit("Open vSwitch carries Ethernet frames (valid: auto, kernel, %s; or %s=%s)", p, ebpf, inner, ethernet)
	}
	return nil
}

func unfit(why string, p part.Params, args ...any) error {
	return &network.UnfitError{
		Reason: fmt.Sprintf("%s=%s with %s=%s: ", impl, p[impl], inner, p[inner]) + fmt.Sprintf(why, args...),
	}
}

// Carry puts a link for each other host on each host.
func (Tunnel) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	if err := fits(p); err != nil {
		return network.Span{}, err
	}
	outer, family := tunnel.Header(p["outer"])
	source := map[string]string{"IPv4": "RFC 2784, section 2", "IPv6": "RFC 7676, section 3"}[family]
	if p[inner] == ethernet {
		return tunnel.CarryFrames(lab, name, p, network.Overhead{
			Bytes:  outer + header + frame,
			Source: fmt.Sprintf("%d %s, 4 GRE (%s), 14 Ethernet (RFC 1701, protocol type 6558)", outer, family, source),
		})
	}
	return tunnel.CarryIP(lab, name, true, p, network.Overhead{
		Bytes: outer + header, Source: fmt.Sprintf("%d %s, 4 GRE (%s)", outer, family, source),
	})
}

// Lengths in bytes of a header of GRE without options (RFC 2784, section 2.1) and of Ethernet (IEEE 802.3, section
// 3.1.1), whose frames have the protocol type of transparent bridging (RFC 1701).
const (
	header = 4
	frame  = 14
)

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{{
		Names: []string{"ip6gre"},
		Why:   "it carries packets in GRE, over IPv6 by outer=ipv6",
	}, {
		Names: []string{"gretap", "ip6gretap", "nvgre"},
		Why:   "it carries Ethernet frames in GRE by inner=ethernet, without keys",
	}}
}
