package tunnel

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/iptunnel"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// impl is a parameter of tunnels that carry IP packets in IP packets.
const impl = "impl"

// IPParams are the parameters of a tunnel that [iptunnel.Links] make.
func IPParams() part.List {
	return part.List{
		{
			Name: impl, Default: iptunnel.Auto, Values: []string{iptunnel.Auto, iptunnel.Kernel, iptunnel.EBPF},
			Summary: "what encapsulates: the kernel's device, eBPF programs, or auto: the device if the kernel has it",
		},
		Outer(),
	}
}

// IPSteps are the kinds of steps of such a tunnel.
func IPSteps() map[string]func() host.Step {
	return map[string]func() host.Step{iptunnel.Links{}.Kind(): func() host.Step { return new(iptunnel.Links) }}
}

// CheckIP says whether this machine can make such a tunnel, in GRE or without.
func CheckIP(gre bool, p part.Params) error {
	return iptunnel.Links{GRE: gre, Impl: p[impl], Over6: p[outer] == ipv6}.Check()
}

// On returns who encapsulates on a span, given the parameter impl: only the kernel, where packets that do not pass its
// IP would not be protected.
func On(below network.Span, name, by string) (string, error) {
	if !below.Addressed {
		return by, nil
	}
	if by != iptunnel.Auto && by != iptunnel.Kernel {
		return "", &network.UnfitError{Reason: fmt.Sprintf("%s with impl=%s sends packets past the kernel's IP, where %s in "+
			"transport mode protects them (hint: impl=%s)", name, by, below.Name, iptunnel.Kernel)}
	}
	return iptunnel.Kernel, nil
}

// CarryIP returns the span that such a tunnel makes, of that name and overhead. Each host has a link for each other
// host, which has one address of each family: that of the host.
func CarryIP(
	lab network.Lab, name string, gre bool, p part.Params, o network.Overhead,
) (network.Span, error) {
	below, top := lab.Top(), lab.Above(name, 3, p[outer], "", o)
	by, err := On(below, name, p[impl])
	if err != nil {
		return top, err
	}
	at := func(r network.Reach) string {
		if p[outer] == ipv6 {
			return r.IPv6.String()
		}
		return r.IPv4.String()
	}
	top.Wire, top.Guards.Claims = carried(name, gre), network.Carries(strings.ToUpper(name), true)
	for i, h := range lab.Hosts {
		t := iptunnel.Links{Impl: by, GRE: gre, Over6: p[outer] == ipv6, MTU: top.MTU}
		var rest []host.Step
		for j, other := range lab.Hosts {
			if i == j {
				continue
			}
			r := &top.Reach[i][j]
			r.Link = fmt.Sprintf("%s%d", name, other.Index)
			r.Sent, r.Received = iptunnel.Sent(r.Link), iptunnel.Received(r.Link)
			t.Peers = append(t.Peers, iptunnel.Peer{
				Link: r.Link, Far: r.Link + "out", MAC: network.MAC(lab.Seed, h.Name(), r.Link), Below: below.Reach[i][j].Link,
				Local: at(below.Reach[i][i]), Remote: at(below.Reach[i][j]),
			})
			own := top.Reach[i][i]
			rest = append(rest,
				host.Link{
					Name: r.Link, MTU: top.MTU, Addresses: []string{alone(own.IPv4), alone(own.IPv6)}, Up: true,
				},
				host.Route{To: alone(r.IPv4), Dev: r.Link}, host.Route{To: alone(r.IPv6), Dev: r.Link},
			)
		}
		top.Steps[i] = append([]host.Step{t}, rest...)
	}
	return top, nil
}

// carried are the protocols of the outer packets (RFC 2003, RFC 2473, RFC 2784).
func carried(name string, gre bool) []network.Protocol {
	const inIPv4, inIPv6, inGRE = 4, 41, 47
	if gre {
		return []network.Protocol{{Name: "GRE", Number: inGRE}}
	}
	name = strings.ToUpper(name)
	return []network.Protocol{{Name: name, Number: inIPv4}, {Name: name, Number: inIPv6}}
}

// alone is an address as a range of one.
func alone(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }
