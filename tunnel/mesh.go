package tunnel

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// Names and values of parameters that tunnels over UDP share.
const (
	outer    = "outer"
	ipv4     = "ipv4"
	ipv6     = "ipv6"
	port     = "port"
	checksum = "checksum"
	off      = "off"
	on       = "on"
)

// Outer is the parameter that says in packets of which family a tunnel carries others.
func Outer() part.Param {
	return part.Param{
		Name: outer, Default: ipv4, Values: []string{ipv4, ipv6}, Summary: "family of the packets between the hosts",
	}
}

// UDP returns the parameters of a tunnel over UDP: those of [Settings]. The default of the port is given.
func UDP(standard uint16) part.List {
	return part.List{
		Outer(),
		{
			Name: port, Default: strconv.Itoa(int(standard)), Check: number, Quiet: true,
			Summary: "UDP port that the tunnel receives at, 1 to 65535",
		},
		{
			Name: checksum, Default: off, Values: []string{off, on}, Quiet: true,
			Summary: "the packets between the hosts have a UDP checksum; the packets inside have their own all the same",
		},
	}
}

func number(s string) (string, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return "", fmt.Errorf("invalid value %q (valid: a port from 1 to 65535)", s)
	}
	return strconv.FormatUint(n, 10), nil
}

// Settings are the values of the parameters of [UDP].
type Settings struct {
	Outer    string
	Port     uint16
	Checksum bool
}

// Read reads them.
func Read(p part.Params) (Settings, error) {
	n, err := strconv.ParseUint(p[port], 10, 16)
	if err != nil {
		return Settings{}, fmt.Errorf("%s %q: %w", port, p[port], err)
	}
	return Settings{Outer: p[outer], Port: uint16(n), Checksum: p[checksum] == on}, nil
}

// At returns the address, of the family of the tunnel's packets, at which a host is on the span below.
func At(below network.Reach, family string) netip.Addr {
	if family == ipv6 {
		return below.IPv6
	}
	return below.IPv4
}

// Header returns the length in bytes of the header of IP, and its name: RFC 791 section 3.1, RFC 8200 section 3.
func Header(family string) (bytes int, name string) {
	if family == ipv6 {
		return 40, "IPv6"
	}
	return 20, "IPv4"
}

// Encapsulate lets the routes of a span tell its links, which are external tunnel devices, where packets go, and adds
// those to the other hosts themselves to its steps. It comes after [network.Lab.Mesh].
func Encapsulate(lab network.Lab, top network.Span, id uint32, s Settings) {
	below := lab.Top()
	for i := range lab.Hosts {
		for j := range lab.Hosts {
			if j == i {
				continue
			}
			r := &top.Reach[i][j]
			r.Encap = host.Encap{
				ID: id, Local: At(below.Reach[i][i], s.Outer).String(), Remote: At(below.Reach[i][j], s.Outer).String(),
				Checksum: s.Checksum,
			}
			for _, a := range []netip.Addr{r.IPv4, r.IPv6} {
				top.Steps[i] = append(top.Steps[i], host.Route{
					To: netip.PrefixFrom(a, a.BitLen()).String(), Dev: r.Link, Encap: r.Encap,
				})
			}
		}
	}
}
