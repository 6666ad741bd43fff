package openvpn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// Parameters, and what they can be.
const (
	cipher   = "cipher"
	cbc      = "aes-256-cbc"
	gcm256   = "aes-256-gcm"
	gcm128   = "aes-128-gcm"
	poly1305 = "chacha20-poly1305"

	outer = "outer"
	ipv4  = "ipv4"
	ipv6  = "ipv6"

	rekey = "rekey"
)

// How often keys can be renewed. The default is that of OpenVPN.
const (
	leastRekey, usualRekey, mostRekey = time.Second, time.Hour, 24 * time.Hour
)

const (
	name = "openvpn"
	// firstPort is the port of hosts 1 and 2: that of OpenVPN (IANA, Service Name and Transport Protocol Port Number
	// Registry).
	firstPort = 1194
)

// Encryption is the encryption "openvpn".
type Encryption struct{}

// Describe says what it is.
func (Encryption) Describe() part.Description {
	return part.Description{
		Name: name, Summary: "an OpenVPN process and a TUN link on each host for each other host", Implementation: name,
		Params: part.List{
			{
				Name: cipher, Default: cbc, Values: ciphers(),
				Summary: "what encrypts packets and makes them authentic: " + cbc + " with HMAC-SHA1, as in SeCoNetBench, " +
					gcm256 + ", " + gcm128 + " or " + poly1305,
			},
			{
				Name: outer, Default: ipv4, Values: []string{ipv4, ipv6}, Summary: "family of the encrypted packets",
			},
			{
				Name: rekey, Default: usualRekey.String(), Quiet: true, Check: part.DurationBetween(leastRekey, mostRekey),
				Summary: "how often keys are renewed, in whole seconds (reneg-sec), 1s to 24h",
			},
		},
	}
}

func ciphers() []string { return []string{cbc, gcm256, gcm128, poly1305} }

// Steps are its own.
func (Encryption) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{Tunnel{}.Kind(): func() host.Step { return new(Tunnel) }}
}

// Check wants the program, and what it needs to make links.
func (Encryption) Check(part.Params) error { return installed() }

// Programmed is true: processes encrypt.
func (Encryption) Programmed(part.Params) bool { return true }

// overhead is what a data packet adds to the packet in it.
func overhead(of, family string) network.Overhead {
	const source = " (OpenVPN 2.6: doc/doxygen/doc_protocol_overview.h, src/openvpn/crypto.h)"
	header, ip := 20, "20 IPv4, "
	if family == ipv6 {
		header, ip = 40, "40 IPv6, "
	}
	if of == cbc {
		return network.Overhead{
			Bytes:  header + 8 + 4 + 20 + 16,
			Source: ip + "8 UDP, 4 opcode and peer id, 20 HMAC-SHA1, 16 IV, and in blocks of 16: 4 packet id, PKCS#7" + source,
			// AES is in blocks of 16 bytes (FIPS 197), and PKCS#7 pads by 1 to 16 of them (RFC 5652, section 6.3).
			Padding: 16, Trailer: 4 + 1,
		}
	}
	return network.Overhead{
		Bytes: header + 8 + 4 + 4 + 16, Source: ip + "8 UDP, 4 opcode and peer id, 4 packet id, 16 tag" + source,
	}
}

// Port returns the UDP port that two of so many hosts use for each other. A host has another one for each other host,
// and three or more hosts use as many ports as there are hosts, without a gap.
func Port(one, other, hosts int) uint16 { return uint16(firstPort + (one+other-3)%hosts) }

// hello is P_CONTROL_HARD_RESET_CLIENT_V2 (OpenVPN 2.6, src/openvpn/ssl_pkt.h) of a session of somebody unknown: opcode
// 7, a session id, no acknowledgement, and packet id 0.
func hello(port uint16) threat.Hello {
	return threat.Hello{
		Name: "a hard reset", Port: port, Data: []byte{7 << 3, 's', 't', 'r', 'a', 'n', 'g', 'e', 'r', 0, 0, 0, 0, 0},
	}
}

// Carry puts a link to each other host on each host.
func (Encryption) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	if !slices.Contains(ciphers(), p[cipher]) {
		return network.Span{}, unknown(p[cipher])
	}
	below, top := lab.Top(), lab.Above(name, 3, p[outer], "", overhead(p[cipher], p[outer]))
	top.Protected, top.Cipher = true, strings.ToUpper(p[cipher])
	if p[cipher] == cbc {
		top.Cipher += " with HMAC-SHA1"
		top.Guards.Ignored = []int{1, 2, 3} // the peer id, see doc.go
	}
	top.Guards.Authentic, top.Guards.Once = true, true
	top.Guards.Settled = "hosts drop the handshake of anyone without the lab's key of tls-crypt, before TLS sees an offer"
	for i := range max(len(lab.Hosts)-1, 1) {
		top.Guards.Hellos = append(top.Guards.Hellos, hello(uint16(firstPort+i)))
	}
	top.Wire = []network.Protocol{{Name: "OpenVPN", Number: network.UDP, Port: firstPort}}
	if len(lab.Hosts) > 2 {
		top.Wire[0].Last = firstPort + len(lab.Hosts) - 1
	}
	for i, h := range lab.Hosts {
		own := top.Reach[i][i]
		for j, other := range lab.Hosts {
			if i == j {
				continue
			}
			r := &top.Reach[i][j]
			r.Link = fmt.Sprintf("ovpn%d", other.Index)
			near, far := below.Reach[i][i], below.Reach[i][j]
			t := Tunnel{
				Link: r.Link, MTU: top.MTU, Host: h.Index, Peer: other.Index, Cipher: p[cipher],
				Local: near.IPv4.String(), Remote: far.IPv4.String(), Port: Port(h.Index, other.Index, len(lab.Hosts)),
			}
			if every := p.Duration(rekey); every != usualRekey {
				t.Every = int(every / time.Second)
			}
			if p[outer] == ipv6 {
				t.Local, t.Remote = near.IPv6.String(), far.IPv6.String()
			}
			top.Steps[i] = append(top.Steps[i],
				t,
				// no address of link scope, which would be asked for by nobody: IN6_ADDR_GEN_MODE_NONE
				host.Sysctl{Key: "net.ipv6.conf." + r.Link + ".addr_gen_mode", Value: "1", IfPresent: true},
				host.Link{Name: r.Link, MTU: top.MTU, Addresses: []string{alone(own.IPv4), alone(own.IPv6)}, Up: true},
				host.Route{To: alone(r.IPv4), Dev: r.Link}, host.Route{To: alone(r.IPv6), Dev: r.Link},
			)
		}
	}
	return top, nil
}

// alone is an address as a range of one.
func alone(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }
