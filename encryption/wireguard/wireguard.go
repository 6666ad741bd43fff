package wireguard

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/wireguard"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// Parameters, and what they can be.
const (
	impl     = "impl"
	auto     = "auto"
	kernel   = "kernel"
	embedded = "embedded"

	outer = "outer"
	ipv4  = "ipv4"
	ipv6  = "ipv6"
)

const (
	name = "wireguard"
	// link is the device of each host.
	link = "wg0"
	// port is the one that documentation of WireGuard uses (https://www.wireguard.com/quickstart); it has no other.
	port = 51820
	// padding is the block size of packets in bytes: WireGuard paper, section 5.4.6.
	padding = 16
)

// Encryption is the encryption "wireguard".
type Encryption struct{}

// Describe says what it is.
func (Encryption) Describe() part.Description {
	return part.Description{
		Name: name, Summary: "a WireGuard device on each host, with all other hosts as peers", Implementation: name,
		Params: part.List{
			{
				Name: impl, Default: auto, Values: []string{auto, kernel, embedded},
				Summary: "what encrypts: the kernel's device, the library in a process of nettoll, or auto: the kernel if it can",
			},
			{
				Name: outer, Default: ipv4, Values: []string{ipv4, ipv6}, Summary: "family of the encrypted packets",
			},
		},
	}
}

// Steps are its own.
func (Encryption) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{Device{}.Kind(): func() host.Step { return new(Device) }}
}

// Daemons are the embedded device.
func (Encryption) Daemons() map[string]host.Daemon {
	return map[string]host.Daemon{name: wireguard.Serve}
}

// Check wants the kernel's device, or what a process needs to have one.
func (Encryption) Check(p part.Params) error {
	_, err := choose(p[impl])
	return err
}

// choose decides who encrypts, and is an error if that cannot be here.
func choose(wanted string) (string, error) {
	switch wanted {
	case embedded:
		return embedded, wireguard.Embeddable()
	case kernel, auto:
	default:
		return "", fmt.Errorf("invalid value %q for %s (valid: %s, %s, %s)", wanted, impl, auto, kernel, embedded)
	}
	err := wireguard.InKernel()
	if wanted == auto && errors.Is(err, errors.ErrUnsupported) {
		return embedded, wireguard.Embeddable()
	}
	return kernel, err
}

// Programmed is true if a process may encrypt.
func (Encryption) Programmed(p part.Params) bool { return p[impl] != kernel }

// overhead is what a data message adds to the packet in it.
func overhead(of string) network.Overhead {
	const source = "8 UDP, 16 header, 16 tag (WireGuard paper, section 5.4.6)"
	o := network.Overhead{Bytes: 60, Source: "20 IPv4, " + source, Padding: padding}
	if of == ipv6 {
		o.Bytes, o.Source = 80, "40 IPv6, "+source
	}
	return o
}

// hello is a handshake initiation (WireGuard paper, section 5.4.2) of somebody who does not know the public key of the
// receiver, and so cannot make its first MAC.
func hello() threat.Hello {
	const length, initiation = 148, 1
	h := threat.Hello{Name: "a handshake initiation", Port: port, Data: make([]byte, length)}
	for i := range h.Data {
		h.Data[i] = byte(i * 7)
	}
	copy(h.Data, []byte{initiation, 0, 0, 0})
	return h
}

// Carry puts a device on each host, and tells it where the others are and which addresses they have.
func (Encryption) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	below, top := lab.Top(), lab.Above(name, 3, p[outer], link, overhead(p[outer]))
	top.Wire, top.Protected = []network.Protocol{{Name: "WireGuard", Number: network.UDP, Port: port}}, true
	top.Cipher = "ChaCha20-Poly1305" // WireGuard paper, section 5.4.6
	top.Guards = network.Guards{
		Authentic: true, Once: true, Hellos: []threat.Hello{hello()},
		Settled: "WireGuard has one suite of ciphers, and hosts negotiate nothing (WireGuard paper, section 1)",
	}
	if p[impl] != kernel {
		top.Merged = wireguard.MergedMost
	}
	for i, h := range lab.Hosts {
		d := Device{Name: link, MTU: top.MTU, Impl: p[impl], Host: h.Index, Port: port}
		for j, other := range lab.Hosts {
			if j == i {
				continue
			}
			at, own := below.Reach[i][j], top.Reach[i][j]
			endpoint := at.IPv4
			if p[outer] == ipv6 {
				endpoint = at.IPv6
			}
			peer := Peer{Host: other.Index, Endpoint: netip.AddrPortFrom(endpoint, port).String()}
			for _, a := range []netip.Addr{own.IPv4, own.IPv6} {
				peer.Allowed = append(peer.Allowed, netip.PrefixFrom(a, a.BitLen()).String())
			}
			for _, r := range network.Ranges(other) {
				peer.Allowed = append(peer.Allowed, r.String())
			}
			d.Peers = append(d.Peers, peer)
		}
		v4, v6 := network.SpanAddr(len(lab.Spans), h.Index)
		top.Steps[i] = []host.Step{
			d,
			// no address of link scope, which no peer would take packets from: IN6_ADDR_GEN_MODE_NONE, which the kernel's
			// device has by itself (drivers/net/wireguard/device.c, wg_setup)
			host.Sysctl{Key: "net.ipv6.conf." + link + ".addr_gen_mode", Value: "1", IfPresent: true},
			host.Link{Name: link, MTU: top.MTU, Addresses: []string{v4.String(), v6.String()}, Up: true},
		}
	}
	return top, nil
}
