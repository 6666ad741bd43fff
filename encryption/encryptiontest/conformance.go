package encryptiontest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/stack"
)

// An Outer is how the encrypted packets of an encryption are recognized on the span below.
type Outer struct {
	// EtherType is that of frames which hold no packet of IP, 0 of others.
	EtherType uint16
	// Protocol is that of IP: 17 for UDP, 50 for ESP.
	Protocol byte
	// Port is the destination port of UDP.
	Port uint16
	// Open are the places of bytes that are neither secret nor authentic, which the receiver ignores: the first byte
	// behind the header of Ethernet, IP or UDP is 0. A packet with another byte there may be delivered, as it was.
	Open []int
	// Repeats says that the receiver may take a packet twice. It is not tried then.
	Repeats bool
}

// Conformance runs the suite of carriers on an encryption with the parameters given, see [carriertest.Conformance]. No
// payload can be read on the underlay, in either direction and from the first packet on. Packets that were changed,
// repeated or never encrypted are not delivered.
func Conformance(t *testing.T, one encryption.Encryption, given map[string]string, o Outer, on ...network.Network) {
	kind := encryption.Kind{one}
	carriertest.Conformance(t, kind, given, o.Hidden, on...)
	between := carriertest.Choose(t, kind, given)
	t.Run(between[0].ID()+"/forged", func(t *testing.T) {
		if err := Forged(t, on[0], between, o); errors.Is(err, errors.ErrUnsupported) {
			testnet.Skip(t, err)
		} else if err != nil {
			t.Error(err)
		}
	})
}

// Hidden wants no payload in any frame, and encrypted packets of the right length in both directions.
func (o Outer) Hidden(p carriertest.Passage) error {
	for i, frames := range p.Frames {
		found := 0
		for _, f := range frames {
			if p.Readable(f) {
				return fmt.Errorf("a frame of %d bytes from host %d holds the payload", len(f), i+1)
			}
			if o.payload(f, p.Span.Outer) > 0 && len(f) == p.Length() {
				found++
			}
		}
		if found < networktest.Exchanged {
			return fmt.Errorf("of %d frames from host %d %d are encrypted packets of %d bytes, and %d were sent", len(frames),
				i+1, found, p.Length(), networktest.Exchanged)
		}
	}
	return nil
}

// Where headers stand in a frame: IEEE 802.3 section 3.1.1, RFC 791 section 3.1, RFC 8200 section 3, RFC 768.
const (
	ethernet = 14
	header4  = 20
	header6  = 40
	udp      = 8
)

// payload returns where that begins which an encrypted packet holds; 0 if the frame is something else.
func (o Outer) payload(f []byte, family string) int {
	if o.EtherType != 0 {
		if len(f) < ethernet || binary.BigEndian.Uint16(f[12:]) != o.EtherType {
			return 0
		}
		return ethernet
	}
	at, kind, protocol := ethernet+header4, uint16(0x0800), ethernet+9
	if family == "ipv6" {
		at, kind, protocol = ethernet+header6, 0x86dd, ethernet+6
	}
	if len(f) < at+udp || binary.BigEndian.Uint16(f[12:]) != kind || f[protocol] != o.Protocol {
		return 0
	}
	if o.Port == 0 {
		return at
	}
	if binary.BigEndian.Uint16(f[at+2:]) != o.Port {
		return 0
	}
	return at + udp
}

// repair makes the checksum of UDP right again: else a changed packet would be dropped for that.
func (o Outer) repair(f []byte, family string) {
	if o.Port == 0 {
		return
	}
	if family == "ipv4" { // it may have none: RFC 768
		binary.BigEndian.PutUint16(f[ethernet+header4+6:], 0)
		return
	}
	datagram := f[ethernet+header6:]
	binary.BigEndian.PutUint16(datagram[6:], 0)
	length := binary.BigEndian.Uint16(datagram[4:])
	pseudo := binary.BigEndian.AppendUint32(bytes.Clone(f[ethernet+8:ethernet+header6]), uint32(length))
	pseudo = append(pseudo, 0, 0, 0, o.Protocol) // RFC 8200, section 8.1
	sum := checksum(append(pseudo, datagram[:length]...))
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(datagram[6:], sum)
}

// checksum is that of RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for i, x := range b {
		if i%2 == 0 {
			sum += uint32(x) << 8
		} else {
			sum += uint32(x)
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// size is the payload of what is forged, in bytes. What the kernel sends on a link by itself (listener reports of
// multicast, router solicitations) is less than half as long: with padding it could not be told from a payload of 64.
const size = 256

// patience is how long a packet may take.
const patience = 2 * time.Second

// quiet is how long nothing must come.
const quiet = 100 * time.Millisecond

// Forged cuts the underlay before host 2, captures what host 1 encrypts, and hands that to host 2 itself: as it is,
// which must be delivered, and changed, repeated and in plain text, which must not.
func Forged(t testing.TB, n network.Network, between stack.Stack, o Outer) (err error) {
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
	// the sender makes checksums: else they would be missing in what is captured, if it can be read
	made := host.LinkSettings{NS: b.Ends[0][0].Namespace, Name: b.Ends[0][0].Inner, Off: []string{"tx"}}
	if err := b.Hosts[0].Stack.Apply(t.Context(), b.Hosts[0].Kernel, host.Plan{Steps: []host.Step{made}}); err != nil {
		return err
	}
	if err := b.Exchange("ipv4", size); err != nil {
		return err
	}
	top := lab.Top()
	f := forger{Outer: o, family: top.Outer, length: header4 + udp + size}
	for _, s := range slices.Backward(lab.Spans) {
		f.length = s.Overhead.On(f.length, s.MTU)
	}
	f.length += ethernet
	if f.near, err = carriertest.Listen(b, 0); err != nil {
		return err
	}
	defer f.near.Close()
	if f.far, err = carriertest.Listen(b, 1); err != nil {
		return err
	}
	defer f.far.Close()
	source, sink := b.Ends[0][0], b.Ends[1][0]
	f.from = netip.AddrPortFrom(source.Bind("ipv4"), 20001)
	f.to = netip.AddrPortFrom(sink.Public("ipv4"), 20001)
	if f.out, err = listen(b.Hosts[0], source, f.from); err != nil {
		return err
	}
	defer f.out.Close()
	if f.in, err = listen(b.Hosts[1], sink, netip.AddrPortFrom(sink.Bind("ipv4"), 20001)); err != nil {
		return err
	}
	defer f.in.Close()
	if err := cut(b); err != nil {
		return err
	}
	return f.all()
}

// cut sets the bridge of the underlay down: its ports, which still send and receive, pass nothing on.
func cut(b *networktest.Bed) error {
	h, err := b.Underlay.Kernel.Links("")
	if err != nil {
		return err
	}
	port, err := h.ByName(b.Lab.Hosts[1].Name())
	if err != nil {
		return err
	}
	bridge, err := h.ByIndex(port.Master)
	if err != nil {
		return err
	}
	return h.SetUp(bridge.Index, false)
}

func listen(m *networktest.Machine, e network.Endpoint, at netip.AddrPort) (c *net.UDPConn, err error) {
	err = m.Kernel.Do(e.Namespace, func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})
	return c, err
}

// forger is who sits on the underlay between two hosts.
type forger struct {
	Outer
	family    string
	length    int // of a frame with the payload
	near, far carriertest.Tap
	out, in   *net.UDPConn
	from, to  netip.AddrPort
	sent      byte
}

func (f *forger) all() error {
	payload, frame, err := f.capture()
	if err != nil {
		return err
	}
	if err := f.arrives(payload, frame); err != nil {
		return fmt.Errorf("an encrypted packet as it was sent: %w (the test shows nothing)", err)
	}
	if !f.Repeats {
		if err := f.vanishes(frame); err != nil {
			return fmt.Errorf("the same encrypted packet once more: %w", err)
		}
	}
	if payload, frame, err = f.capture(); err != nil {
		return err
	}
	begin := f.payload(frame, f.family)
	var changed [][]byte
	for i := begin; i < len(frame); i++ {
		if slices.Contains(f.Open, i-begin) {
			continue
		}
		other := bytes.Clone(frame)
		other[i] ^= 1 << (i % 8)
		f.repair(other, f.family)
		changed = append(changed, other)
	}
	if err := f.vanishes(changed...); err != nil {
		return fmt.Errorf("an encrypted packet with another byte: %w", err)
	}
	if err := f.arrives(payload, frame); err != nil {
		return fmt.Errorf("that packet as it was sent: %w (the test shows nothing)", err)
	}
	if payload, frame, err = f.capture(); err != nil {
		return err
	}
	var plain [][]byte
	for at := begin; at+len(f.plain(payload)) <= len(frame); at += 4 { // behind whatever header it looks for
		other := bytes.Clone(frame)
		copy(other[at:], f.plain(payload))
		f.repair(other, f.family)
		plain = append(plain, other)
	}
	if len(plain) < 4 {
		return errors.New("a plain packet does not fit into an encrypted one")
	}
	if err := f.vanishes(plain...); err != nil {
		return fmt.Errorf("a plain packet in the place of an encrypted one: %w", err)
	}
	if err := f.arrives(payload, frame); err != nil {
		return fmt.Errorf("the packet that the plain one was made of: %w (the test shows nothing)", err)
	}
	return nil
}

// capture sends a payload of its own from container to container, and returns the frame that is on its way.
func (f *forger) capture() (payload, frame []byte, err error) {
	if _, err := f.near.Passed(); err != nil {
		return nil, nil, err
	}
	f.sent++
	payload = bytes.Repeat([]byte{f.sent}, size)
	if _, err := f.out.WriteToUDPAddrPort(payload, f.to); err != nil {
		return nil, nil, err
	}
	frames, err := f.near.Passed()
	for _, one := range frames {
		if f.payload(one, f.family) > 0 && len(one) == f.length {
			frame = one
		}
	}
	if frame == nil {
		return nil, nil, errors.Join(err, errors.New("no encrypted packet leaves host 1"))
	}
	f.repair(frame, f.family)
	return payload, frame, err
}

// plain is the packet of a payload, as it was before it was encrypted.
func (f *forger) plain(payload []byte) []byte {
	total := header4 + udp + len(payload)
	p := make([]byte, header4+udp, total)
	p[0], p[8], p[9] = 0x45, 64, 17 // version and length of the header, hops, UDP
	binary.BigEndian.PutUint16(p[2:], uint16(total))
	copy(p[12:], f.from.Addr().AsSlice())
	copy(p[16:], f.to.Addr().AsSlice())
	binary.BigEndian.PutUint16(p[10:], checksum(p[:header4]))
	binary.BigEndian.PutUint16(p[header4:], f.from.Port())
	binary.BigEndian.PutUint16(p[header4+2:], f.to.Port())
	binary.BigEndian.PutUint16(p[header4+4:], uint16(udp+len(payload)))
	return append(p, payload...)
}

// arrives hands a frame to host 2 and wants its payload to be delivered.
func (f *forger) arrives(payload, frame []byte) error {
	if _, err := f.far.Write(frame); err != nil {
		return err
	}
	if err := f.in.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	got := make([]byte, 2*size)
	n, err := f.in.Read(got)
	if err != nil {
		return fmt.Errorf("it is not delivered: %w", err)
	}
	if !bytes.Equal(got[:n], payload) {
		return fmt.Errorf("%d other bytes are delivered", n)
	}
	return nil
}

// vanishes hands frames to host 2 and wants nothing to be delivered.
func (f *forger) vanishes(frames ...[]byte) error {
	for _, frame := range frames {
		if _, err := f.far.Write(frame); err != nil {
			return err
		}
	}
	if err := f.in.SetReadDeadline(time.Now().Add(quiet)); err != nil {
		return err
	}
	n, err := f.in.Read(make([]byte, 2*size))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%d bytes are delivered", n)
}
