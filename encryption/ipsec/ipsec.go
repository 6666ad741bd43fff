package ipsec

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/ipsec"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// Parameters, and what they can be.
const (
	impl       = "impl"
	auto       = "auto"
	kernel     = "kernel"
	strongswan = "strongswan"

	cipher = "cipher"

	encap = "encap"
	inUDP = "udp"
	none  = "none"

	mode      = "mode"
	tunnel    = "tunnel"
	transport = "transport"

	outer = "outer"
	ipv4  = "ipv4"
	ipv6  = "ipv6"
)

const name = "ipsec"

// esp is the number of the protocol (IANA, Protocol Numbers).
const esp = 50

// Encryption is the encryption "ipsec".
type Encryption struct{}

// Describe says what it is.
func (Encryption) Describe() part.Description {
	ciphers := ipsec.Names()
	return part.Description{
		Name: name, Summary: "ESP between all hosts, in tunnel mode or below a tunnel in transport mode",
		Implementation: "kernel",
		Params: part.List{
			{
				Name: impl, Default: auto, Values: []string{auto, kernel, strongswan},
				Summary: "what encrypts: the kernel, strongSwan in userspace, or auto: the kernel if it can",
			},
			{
				Name: cipher, Default: ciphers[0], Values: ciphers,
				Summary: "how packets are encrypted; aes-256-cbc and null have HMAC-SHA1-96, and null hides nothing",
			},
			{
				Name: encap, Default: inUDP, Values: []string{inUDP, none},
				Summary: "what carries ESP: UDP to port 4500, or nothing but IP, by the kernel only",
			},
			{
				Name: mode, Default: tunnel, Values: []string{tunnel, transport}, Quiet: true,
				Summary: "tunnel: ESP carries packets of containers; transport: it protects those of the tunnel that stands on " +
					"it, without a header of IP of its own, by the kernel only",
			},
			{
				Name: outer, Default: ipv4, Values: []string{ipv4, ipv6}, Summary: "family of the encrypted packets",
			},
		},
		Near: near,
	}
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{{
		Names: []string{"esp", "xfrm", "strongswan", "libreswan", "ikev2"},
		Why:   "it is ESP, by xfrm of the kernel or, with keys by IKEv2, by strongSwan",
	}}
}

// Steps are its own.
func (Encryption) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{Device{}.Kind(): func() host.Step { return new(Device) }}
}

// Check wants what encrypts.
func (Encryption) Check(p part.Params) error {
	c, err := ipsec.Find(p[cipher])
	if err != nil {
		return err
	}
	if err := together(p); err != nil {
		return err
	}
	_, err = choose(p[impl], p[encap] == inUDP && p[mode] != transport, c)
	return err
}

// together says which values do not go together.
func together(p part.Params) error {
	if p[impl] == strongswan && p[mode] == transport {
		return &network.UnfitError{Reason: fmt.Sprintf("%s=%s encrypts in tunnel mode only (libipsec: \"unsupported mode\"; "+
			"hint: leave %s=%s, or choose %s=%s)", impl, strongswan, mode, tunnel, impl, kernel)}
	}
	if p[impl] == strongswan && p[encap] == none {
		return &network.UnfitError{Reason: fmt.Sprintf("%s=%s carries ESP in UDP only (hint: leave %s=%s, or choose %s=%s)",
			impl, strongswan, encap, inUDP, impl, kernel)}
	}
	return nil
}

// choose decides who encrypts, and is an error if that cannot be here. both says that strongSwan could, too.
func choose(wanted string, both bool, c ipsec.Cipher) (string, error) {
	switch wanted {
	case strongswan:
		return strongswan, ipsec.Installed()
	case kernel, auto:
	default:
		return "", fmt.Errorf("invalid value %q for %s (valid: %s, %s, %s)", wanted, impl, auto, kernel, strongswan)
	}
	err := ipsec.InKernel(c)
	if wanted == auto && both && errors.Is(err, errors.ErrUnsupported) {
		return strongswan, ipsec.Installed()
	}
	return kernel, err
}

// Programmed is true if a process may encrypt.
func (Encryption) Programmed(p part.Params) bool {
	return p[impl] != kernel && p[encap] == inUDP && p[mode] != transport
}

// Lengths of headers in bytes: RFC 791 section 3.1, RFC 8200 section 3, RFC 768, RFC 4303 section 2.
const (
	header4   = 20
	header6   = 40
	headerUDP = 8
	headerESP = 8
	trailer   = 2
)

// overhead is what ESP adds to a packet. In transport mode the packet keeps its header of IP.
func overhead(c ipsec.Cipher, p part.Params) network.Overhead {
	ip, family := header4, "IPv4"
	if p[outer] == ipv6 {
		ip, family = header6, "IPv6"
	}
	o := network.Overhead{Bytes: headerESP + c.IV + c.ICV, Padding: c.Block, Trailer: trailer}
	if p[mode] == transport {
		o.Header = ip
	} else {
		o.Bytes += ip
		o.Source = fmt.Sprintf("%d %s, ", ip, family)
	}
	if p[encap] == inUDP {
		o.Bytes += headerUDP
		o.Source += "8 UDP (RFC 3948, section 2.1), "
	}
	o.Source += "8 header"
	if c.IV > 0 {
		o.Source += fmt.Sprintf(", %d IV", c.IV)
	}
	o.Source += fmt.Sprintf(", %d ICV (RFC 4303, section 2; %s)", c.ICV, c.Source)
	if programmed(p) {
		o.Limit = ipsec.MostCharon
	}
	return o
}

func programmed(p part.Params) bool { return Encryption{}.Programmed(p) }

// Carry puts a device on each host, and tells it where the others are and which addresses they have.
func (Encryption) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	c, err := ipsec.Find(p[cipher])
	if err != nil {
		return network.Span{}, err
	}
	if err := together(p); err != nil {
		return network.Span{}, err
	}
	below, top := lab.Top(), lab.Above(name, 3, p[outer], ipsec.Link, overhead(c, p))
	if p[mode] == transport { // hosts are where they were
		top.Layer, top.Reach, top.Addressed = below.Layer, below.Reach, true
	}
	top.Protected, top.Cipher = !c.Null, strings.ToUpper(p[cipher])
	if p[cipher] == "aes-256-cbc" || c.Null {
		top.Cipher += " with HMAC-SHA1-96"
	}
	top.Wire, top.Guards = wire(p), network.Guards{Authentic: true, Once: true}
	if c.Null {
		top.Guards.Claims = threat.Leaves("the null cipher hides nothing", threat.WireSniff, threat.WirePatterns,
			threat.WireSilence)
	}
	if p[encap] == inUDP && p[impl] != kernel {
		top.Guards.Hellos, top.Guards.Offers = []threat.Hello{hello()}, offers()
	} else {
		top.Guards.Settled = "keys and ciphers are those of the plan, and hosts negotiate nothing"
	}
	if p[impl] != strongswan && p[mode] != transport {
		top.Merged = merged
	}
	for i, h := range lab.Hosts {
		d := Device{
			Name: ipsec.Link, Impl: p[impl], Cipher: p[cipher], UDP: p[encap] == inUDP, Host: h.Index,
			Own: ranges(top.Reach[i][i], h),
		}
		for j, other := range lab.Hosts {
			at := below.Reach[i][j].IPv4
			if p[outer] == ipv6 {
				at = below.Reach[i][j].IPv6
			}
			if j == i {
				d.At = at.String()
				continue
			}
			d.Peers = append(d.Peers, Peer{Host: other.Index, At: at.String(), Ranges: ranges(top.Reach[i][j], other)})
		}
		if p[mode] == transport {
			d.Name, d.Own, d.Transport = "", nil, true
			for j := range d.Peers {
				d.Peers[j].Ranges = nil
			}
			top.Steps[i] = []host.Step{d}
			continue
		}
		v4, v6 := network.SpanAddr(len(lab.Spans), h.Index)
		top.Steps[i] = []host.Step{
			d,
			// no address of link scope, which no peer would take packets from: IN6_ADDR_GEN_MODE_NONE
			host.Sysctl{Key: "net.ipv6.conf." + ipsec.Link + ".addr_gen_mode", Value: "1", IfPresent: true},
			host.Link{Name: ipsec.Link, MTU: top.MTU, Addresses: []string{v4.String(), v6.String()}, Up: true},
		}
	}
	return top, nil
}

// merged is the number of packets that the kernel's link may count as one: a segment of 64 KiB (GSO_LEGACY_MAX_SIZE,
// include/linux/netdevice.h) is cut where it is encrypted, behind the link, into packets of at least 576 bytes.
const merged = 65536 / 576

// wire is what its packets are on the span below.
func wire(p part.Params) []network.Protocol {
	if p[encap] == none {
		return []network.Protocol{{Name: "ESP", Number: esp}}
	}
	list := []network.Protocol{{Name: "ESP in UDP", Number: network.UDP, Port: ipsec.Port}}
	if programmed(p) {
		list = append(list, network.Protocol{Name: "IKEv2", Number: network.UDP, Port: ipsec.Port})
	}
	return list
}

// ranges are the addresses of a host on the span, and of its containers.
func ranges(at network.Reach, h network.Host) []string {
	var list []string
	for _, a := range []netip.Addr{at.IPv4, at.IPv6} {
		list = append(list, netip.PrefixFrom(a, a.BitLen()).String())
	}
	for _, r := range network.Ranges(h) {
		list = append(list, r.String())
	}
	return list
}
