package tinc

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	driver "github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// Parameters, and what they can be.
const (
	cipher = "cipher"
	cbc256 = "aes-256-cbc"
	cbc128 = "aes-128-cbc"

	outer = "outer"
	ipv4  = "ipv4"
	ipv6  = "ipv6"

	rekey = "rekey"
)

// How often keys of packets can be renewed. The default is that of tinc.
const (
	leastRekey, usualRekey, mostRekey = time.Second, time.Hour, 24 * time.Hour
)

const (
	name = "tinc"
	// link is the TUN device of each host.
	link = "tinc0"
	// port is that of tinc, of UDP and TCP (IANA, Service Name and Transport Protocol Port Number Registry).
	port = 655
	// program and debian are what encrypts, and the package that has it.
	program, debian = "tincd", "tinc"
)

// Encryption is the encryption "tinc".
type Encryption struct{}

// Describe says what it is.
func (Encryption) Describe() part.Description {
	return part.Description{
		Name: name, Summary: "tinc 1.0 on each host, each connected to all others", Implementation: "userspace",
		Params: part.List{
			{
				Name: cipher, Default: cbc256, Values: []string{cbc256, cbc128}, Why: why,
				Summary: "cipher of the packets, aes-256-cbc or aes-128-cbc; each has a MAC of 16 bytes (HMAC-SHA-256)",
			},
			{
				Name: outer, Default: ipv4, Values: []string{ipv4, ipv6}, Summary: "family of the encrypted packets",
			},
			{
				Name: rekey, Default: usualRekey.String(), Quiet: true, Check: part.DurationBetween(leastRekey, mostRekey),
				Summary: "how often keys of packets are renewed, in whole seconds (KeyExpire), 1s to 24h",
			},
		},
	}
}

// why says why ciphers are not offered that the program would take, see the documentation of the package.
func why(cipher string) string {
	ends := func(mode string) bool { return strings.HasSuffix(strings.ToLower(cipher), mode) }
	switch {
	case ends("gcm"), ends("ccm"), ends("ocb"):
		return "tinc 1.0 cannot decrypt packets of ciphers that have a tag of their own, and sends them over TCP, where " +
			"AES-CFB encrypts them without a MAC"
	case ends("ofb"):
		return "tinc 1.0 encrypts all packets with the same key stream: the XOR of two packets shows what is in them"
	case ends("ctr"):
		return "tinc 1.0 does not number the blocks of packets: after a packet is lost nothing can be decrypted"
	case ends("none"):
		return "it does not encrypt"
	}
	return ""
}

// Steps are its own.
func (Encryption) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{Daemon{}.Kind(): func() host.Step { return new(Daemon) }}
}

// Check wants the program, and a TUN device for it.
func (Encryption) Check(part.Params) error {
	const what = "encrypt by tinc"
	if _, err := exec.LookPath(program); err != nil {
		return &linux.UnsupportedError{
			What: what, Missing: fmt.Sprintf("program %q", program), Hint: "install the package " + debian, Err: err,
		}
	}
	return driver.CheckTUN(what)
}

// Programmed is true: a process encrypts.
func (Encryption) Programmed(part.Params) bool { return true }

// What is in a packet of tinc besides the IP packet, in bytes: tinc 1.0.36, src/net.h (vpn_packet_t) and
// src/net_packet.c (send_udppacket). The padding is that of PKCS #7: at least one byte, up to whole blocks of AES.
const (
	sequence, ethernet = 4, 14
	block, leastPad    = 16, 1
	// mac is what is kept of HMAC-SHA-256: 128 bits, as in IPsec (RFC 4868, section 2.1.1) and as long as a tag of GCM.
	// The default of the program is 32 bits.
	mac = 16
)

// most is the largest IP packet that the program reads whole: MTU of src/net.h is 1518, as Debian builds it.
const most = 1518 - ethernet

// overhead is what a packet of tinc adds to the IP packet in it.
func overhead(of string) network.Overhead {
	const source = "8 UDP, 16 MAC; encrypted with it are 4 sequence number, 14 Ethernet and 1 or more of PKCS #7 " +
		"padding (tinc 1.0.36, src/net_packet.c, send_udppacket)"
	o := network.Overhead{
		Bytes: 20 + 8 + mac, Source: "20 IPv4, " + source, Padding: block, Trailer: sequence + ethernet + leastPad,
	}
	if of == ipv6 {
		o.Bytes, o.Source = 40+8+mac, "40 IPv6, "+source
	}
	return o
}

// Carry puts the program on each host, and tells it where the others are and which addresses they have.
func (Encryption) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	o := overhead(p[outer])
	below, top := lab.Top(), lab.Above(name, 3, p[outer], link, o)
	top.MTU = min(top.MTU, o.Largest(o.Bytes+o.Trailer+most))
	top.Protected, top.Cipher = true, strings.ToUpper(p[cipher])+" with HMAC-SHA-256-128"
	top.Guards = network.Guards{ // of packets, not of meta connections
		Authentic: true, Once: true,
		Settled: "tinc agrees on ciphers over TCP, in messages that are encrypted for the key of the other end",
	}
	top.Wire = []network.Protocol{
		{Name: name, Number: network.UDP, Port: port},
		{Name: "its meta connections", Number: network.TCP, Port: port},
	}
	for i, h := range lab.Hosts {
		d := Daemon{Name: link, Host: h.Index, Cipher: p[cipher], Family: p[outer]}
		if every := p.Duration(rekey); every != usualRekey {
			d.Every = int(every / time.Second)
		}
		for j, other := range lab.Hosts {
			at, own := below.Reach[i][j], top.Reach[i][j]
			n := Node{Host: other.Index, Address: at.IPv4.String()}
			if p[outer] == ipv6 {
				n.Address = at.IPv6.String()
			}
			for _, a := range []netip.Addr{own.IPv4, own.IPv6} {
				n.Subnets = append(n.Subnets, netip.PrefixFrom(a, a.BitLen()).String())
			}
			for _, r := range network.Ranges(other) {
				n.Subnets = append(n.Subnets, r.String())
			}
			d.Nodes = append(d.Nodes, n)
		}
		v4, v6 := network.SpanAddr(len(lab.Spans), h.Index)
		top.Steps[i] = []host.Step{
			d,
			network.Orphans(""), // of the daemons
			// no address of link scope, which no other host would take packets from
			host.Sysctl{Key: "net.ipv6.conf." + link + ".addr_gen_mode", Value: "1", IfPresent: true},
			host.Link{Name: link, MTU: top.MTU, Addresses: []string{v4.String(), v6.String()}, Up: true},
		}
	}
	return top, nil
}
