package tunneltest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/tunnel"
)

// Strangers sends outer packets of a tunnel that carries IP packets, with the header of GRE or without, to a host from
// the underlay. Those of a peer reach the container. Those of others, and those that no peer sends so, do not. Lengths
// that are wrong are tried where the tunnel itself looks at them.
func Strangers(t *testing.T, one tunnel.Tunnel, given map[string]string, n network.Network, gre, lengths bool) {
	kinds := stack.Kinds{tunnel.Kind{one}}
	chosen, err := kinds.Choose(kinds[0].Describe().Name, one.Describe().Name, given)
	if err != nil {
		t.Fatal(err)
	}
	t.Run(chosen.ID()+"/strangers", func(t *testing.T) {
		if err := strangers(t, n, stack.Stack{chosen}, gre, lengths); errors.Is(err, errors.ErrUnsupported) {
			testnet.Skip(t, err)
		} else if err != nil {
			t.Error(err)
		}
	})
}

// A try is an outer packet.
type try struct {
	what     string
	from     netip.Addr
	protocol byte
	change   func(outer, inner []byte) // before the checksum of the outer header
	gre      []byte
	arrives  bool
}

// Lengths of headers: RFC 791 section 3.1, RFC 8200 section 3, RFC 768.
const header4, header6, udpHeader = 20, 40, 8

// small is a payload in bytes.
const small = 28

// patience is how long packets may take.
const patience = 200 * time.Millisecond

// Protocols, and the type of IPv4 frames: the registries of IANA.
const (
	protocolIPIP, protocolUDP, protocolGRE, protocolESP = 4, 17, 47, 50

	typeIPv4, typeIPv6 = 0x0800, 0x86dd
)

// tries are what is sent; the first and the last are a peer's.
func tries(peer, stranger netip.Addr, gre, lengths bool) []try {
	protocol, head := byte(protocolIPIP), []byte(nil)
	if gre {
		protocol, head = protocolGRE, []byte{0, 0, typeIPv4 >> 8, typeIPv4 & 0xff}
	}
	honest := try{what: "a peer's", from: peer, protocol: protocol, gre: head, arrives: true}
	list := []try{honest}
	add := func(what string, change func(*try)) {
		c := honest
		c.what, c.arrives = what, false
		change(&c)
		list = append(list, c)
	}
	add("a stranger's", func(c *try) { c.from = stranger })
	add("of another protocol", func(c *try) { c.protocol = protocolESP })
	if gre {
		add("with the wrong type", func(c *try) { c.gre = []byte{0, 0, typeIPv6 >> 8, typeIPv6 & 0xff} })
		add("with a key", func(c *try) { c.gre = []byte{0x20, 0, typeIPv4 >> 8, typeIPv4 & 0xff, 0, 0, 0, 1} })
		add("without GRE", func(c *try) { c.protocol, c.gre = protocolIPIP, nil })
	}
	if lengths {
		add("with an inner packet that is longer than the outer one", func(c *try) {
			c.change = func(_, inner []byte) { binary.BigEndian.PutUint16(inner[2:], 1000) }
		})
		add("with an inner packet of no known version", func(c *try) {
			c.change = func(_, inner []byte) { inner[0] = 0x55 }
		})
		if peer.Is4() {
			add("that is a fragment", func(c *try) { c.change = func(outer, _ []byte) { outer[6] = 0x20 } })
		}
	}
	return append(list, honest)
}

func strangers(t *testing.T, n network.Network, between stack.Stack, gre, lengths bool) (err error) {
	lab, err := network.Compose(networktest.Lab(2, 1), between)
	if err != nil {
		return err
	}
	b, err := networktest.MakeBed(t, n, lab)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Undo()) }()
	if err := errors.Join(b.Apply(t), b.Verify(t)); err != nil {
		return err
	}
	tap, err := carriertest.Listen(b, 1)
	if err != nil {
		return err
	}
	defer tap.Close()
	to, from := b.Ends[1][0], b.Ends[0][0]
	var in *net.UDPConn
	if err := b.Hosts[1].Kernel.Do(to.Namespace, func() (err error) {
		in, err = net.ListenUDP("udp4", &net.UDPAddr{IP: to.IPv4.AsSlice()})
		return err
	}); err != nil {
		return err
	}
	defer in.Close()
	port := in.LocalAddr().(*net.UDPAddr).Port
	below := lab.Spans[0].Reach[0]
	peer, self, stranger := below[0].IPv4, below[1].IPv4, netip.MustParseAddr("198.18.0.77")
	if lab.Top().Outer == "ipv6" {
		peer, self, stranger = below[0].IPv6, below[1].IPv6, netip.MustParseAddr("fd00:198:18::77")
	}
	mac, err := net.ParseMAC(below[1].MAC)
	if err != nil {
		return err
	}
	for i, c := range tries(peer, stranger, gre, lengths) {
		if _, err := tap.Write(c.frame(mac, self, from.IPv4, to.IPv4, port, byte(i))); err != nil {
			return fmt.Errorf("send a packet %s: %w", c.what, err)
		}
		if err := in.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		got := make([]byte, small)
		_, err := in.Read(got)
		switch arrived := err == nil; {
		case arrived && got[0] != byte(i):
			return fmt.Errorf("a packet %s: packet %d arrives instead", c.what, got[0])
		case arrived != c.arrives:
			return fmt.Errorf("a packet %s: arrived %t, want %t", c.what, arrived, c.arrives)
		}
	}
	return nil
}

// frame is the try as a frame of Ethernet, with a datagram whose payload begins with mark.
func (c try) frame(mac net.HardwareAddr, self, from, to netip.Addr, port int, mark byte) []byte {
	payload := make([]byte, small)
	payload[0] = mark
	datagram := binary.BigEndian.AppendUint16(nil, 7)
	datagram = binary.BigEndian.AppendUint16(datagram, uint16(port))
	datagram = binary.BigEndian.AppendUint16(datagram, uint16(udpHeader+len(payload)))
	datagram = append(append(datagram, 0, 0), payload...) // without a checksum (RFC 768)
	inner := packet4(from, to, protocolUDP, datagram)
	if c.change != nil {
		c.change(make([]byte, header6), inner)
		sum4(inner)
	}
	body := append(append([]byte(nil), c.gre...), inner...)
	frame := append(append([]byte(nil), mac...), 2, 0, 0, 0, 0, 0x77)
	if c.from.Is6() {
		outer := binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(len(body)))
		outer = append(append(append(outer, c.protocol, 64), c.from.AsSlice()...), self.AsSlice()...)
		frame = binary.BigEndian.AppendUint16(frame, typeIPv6)
		return append(append(frame, outer...), body...)
	}
	outer := packet4(c.from, self, c.protocol, body)
	if c.change != nil {
		c.change(outer, make([]byte, header4))
		sum4(outer)
	}
	return append(binary.BigEndian.AppendUint16(frame, typeIPv4), outer...)
}

// packet4 is a packet of IPv4 (RFC 791, section 3.1).
func packet4(from, to netip.Addr, protocol byte, body []byte) []byte {
	p := binary.BigEndian.AppendUint16([]byte{0x45, 0}, uint16(header4+len(body)))
	p = append(p, 0, 0, 0, 0, 64, protocol, 0, 0)
	p = append(append(append(p, from.AsSlice()...), to.AsSlice()...), body...)
	sum4(p)
	return p
}

// sum4 sets the checksum of the header of a packet (RFC 1071).
func sum4(p []byte) {
	p[10], p[11] = 0, 0
	sum := uint32(0)
	for i := 0; i < header4; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(p[10:], ^uint16(sum))
}
