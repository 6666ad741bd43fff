package carriertest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/stack"
)

// Conformance runs the suite on the only part of a kind with the parameters given, under the first of the networks: it
// describes itself, its spans hold together, and in a lab of two hosts it carries packets of full size in both
// families, its devices count them, it adds to them what it says, refuses or cuts larger ones, notices when somebody
// tampers, and leaves nothing. The judge says what may pass the underlay. Packets also pass between every two of four
// hosts, see [Hosts]. Under the other networks it carries and counts packets; in make test-slow, ways around these
// networks are noticed, too.
func Conformance(t *testing.T, kind stack.Kind, given map[string]string, judge Judge, on ...network.Network) {
	between := Choose(t, kind, given)
	d := between[0].Part.Description
	if d.Name == "" || d.Summary == "" || strings.HasSuffix(d.Summary, ".") || d.Implementation == "" {
		t.Errorf("it describes itself as %q, %q, by %q: want a name, a sentence without its full stop, and who does the work",
			d.Name, d.Summary, d.Implementation)
	}
	id := between[0].ID()
	t.Run(id+"/spans", func(t *testing.T) {
		for _, hosts := range []int{2, 5} {
			if err := spans(networktest.Lab(hosts, 1), between); err != nil {
				t.Errorf("%d hosts: %v", hosts, err)
			}
		}
	})
	checks := []string{
		"packets, 2 hosts, 1 pairs", "path, 2 hosts", "pure", "shape", "round trip", "MAC addresses",
		"packets, 2 hosts, 3 pairs", "undo, 2 hosts", "undo from data, 2 hosts", "tampering",
	}
	for i, n := range on {
		if i == 1 {
			checks = []string{"packets, 2 hosts, 1 pairs", "way, 2 hosts"}
		}
		t.Run(id, func(t *testing.T) {
			if i > 0 {
				testnet.Turn(t)
			}
			networktest.CheckCarried(t, n, between, checks...)
		})
		if i > 0 {
			t.Run(id+"/around", func(t *testing.T) {
				testnet.Slow(t, "a way around the first network is noticed")
				networktest.CheckCarried(t, n, between, "path, 2 hosts")
			})
		}
	}
	wire(t, on[0], between, judge)
	several(t, on[0], between)
}

// Brief runs a part of the suite, under one network: the carrier's spans hold together, it carries packets of full
// size, also between every two of four hosts, its devices count them, it adds to them what it says, and it leaves
// nothing.
func Brief(t *testing.T, kind stack.Kind, given map[string]string, judge Judge, on network.Network) {
	between := Choose(t, kind, given)
	t.Run(between[0].ID()+"/spans", func(t *testing.T) {
		if err := spans(networktest.Lab(2, 1), between); err != nil {
			t.Error(err)
		}
	})
	t.Run(between[0].ID(), func(t *testing.T) {
		networktest.CheckCarried(t, on, between, "packets, 2 hosts, 1 pairs", "path, 2 hosts", "undo, 2 hosts")
	})
	wire(t, on, between, judge)
	several(t, on, between)
}

// wire has what passes the underlay judged.
func wire(t *testing.T, on network.Network, between stack.Stack, judge Judge) {
	t.Run(between[0].ID()+"/wire", func(t *testing.T) {
		testnet.Turn(t)
		report(t, OnWire(t, on, between, judge))
	})
}

// several has packets pass between every two of several hosts.
func several(t *testing.T, on network.Network, between stack.Stack) {
	t.Run(between[0].ID()+"/four hosts", func(t *testing.T) {
		testnet.Turn(t)
		report(t, Hosts(t, on, between))
	})
}

// Choose returns a stack of the only part of a kind alone, with the parameters given.
func Choose(t testing.TB, kind stack.Kind, given map[string]string) stack.Stack {
	t.Helper()
	chosen, err := stack.Kinds{kind}.Choose(kind.Describe().Name, kind.Parts()[0].Name, given)
	if err != nil {
		t.Fatal(err)
	}
	return stack.Stack{chosen}
}

// Plan returns the plan of the first of three hosts that have a stack between them. It needs no kernel.
func Plan(t testing.TB, n network.Network, between stack.Stack) host.Plan {
	t.Helper()
	lab, err := network.Compose(networktest.Lab(3, 1), between)
	if err != nil {
		t.Fatal(err)
	}
	plans, _, err := network.Join(n, lab)
	if err != nil {
		t.Fatal(err)
	}
	return plans[0]
}

// spans wants the same span for the same lab, one that is the lower one less what it says it adds, and every host to
// reach every other one.
func spans(lab network.Lab, between stack.Stack) error {
	composed, err := network.Compose(lab, between)
	if err != nil {
		return err
	}
	again, err := network.Compose(lab, between)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(composed.Spans, again.Spans, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		return fmt.Errorf("the same lab, composed twice (-first +second):\n%s", diff)
	}
	below, s := composed.Spans[0], composed.Top()
	switch {
	case len(composed.Spans) != 2 || s.Name == "":
		return fmt.Errorf("%d spans, the upper one called %q; want the underlay and one with a name", len(composed.Spans),
			s.Name)
	case s.Overhead.Bytes <= 0 || s.Overhead.Source == "":
		return fmt.Errorf("an overhead of %d bytes by %q; want what it adds, and where that stands", s.Overhead.Bytes,
			s.Overhead.Source)
	case len(s.Wire) == 0 || s.Wire[0].Name == "" || s.Wire[0].Number == 0:
		return fmt.Errorf("packets on the span below are %+v; want the name and the number of their protocol", s.Wire)
	case s.MTU != s.Overhead.Largest(below.MTU):
		return fmt.Errorf("an MTU of %d bytes on one of %d, with the overhead %+v", s.MTU, below.MTU, s.Overhead)
	case s.Layer != 2 && s.Layer != 3:
		return fmt.Errorf("layer %d; want 2 or 3", s.Layer)
	case s.Outer != "ipv4" && s.Outer != "ipv6" && (s.Outer != "" || s.Wire[0].Number < 0x600):
		return fmt.Errorf("packets of %q, which are %s; want ipv4 or ipv6, or an EtherType", s.Outer, s.Wire[0])
	case len(s.Reach) != len(lab.Hosts) || len(s.Steps) != len(lab.Hosts):
		return fmt.Errorf("%d hosts that reach others, and %d with steps, of %d", len(s.Reach), len(s.Steps), len(lab.Hosts))
	}
	for i, row := range s.Reach {
		for j, r := range row {
			own := s.Reach[j][j]
			switch {
			case !r.IPv4.Is4() || !r.IPv6.Is6() || r.IPv4 != own.IPv4 || r.IPv6 != own.IPv6:
				return fmt.Errorf("host %d reaches host %d at %s and %s, whose addresses are %s and %s", i+1, j+1, r.IPv4, r.IPv6,
					own.IPv4, own.IPv6)
			case i != j && r.Link == "":
				return fmt.Errorf("host %d reaches host %d by no link", i+1, j+1)
			case (r.MAC == "") == (s.Layer == 2):
				return fmt.Errorf("host %d reaches host %d on layer %d at MAC address %q", i+1, j+1, s.Layer, r.MAC)
			}
		}
	}
	return nil
}

// Lengths of headers: RFC 791 section 3.1, RFC 8200 section 3, RFC 768, IEEE 802.3 section 3.1.1.
const (
	header4, header6 = 20, 40
	udpHeader        = 8
	ethernetHeader   = 14
)

// small is a payload in bytes.
const small = 28

// A Passage is what passed the underlay of a lab of two hosts while datagrams of one length and their answers did.
type Passage struct {
	// Span is what carried them, the uppermost one of the lab.
	Span network.Span
	lab  network.Lab
	// Size is their payload in bytes, and Packet the whole of the packet.
	Size, Packet int
	// Frames are those from host 1 and from host 2, in order.
	Frames [2][][]byte
}

// Length is that of a frame which carries such a packet, in bytes.
func (p Passage) Length() int { return ethernetHeader + onUnderlay(p.lab, p.Packet) }

// onUnderlay is the length of a packet with what all carriers of a lab add, in bytes.
func onUnderlay(lab network.Lab, packet int) int {
	for _, s := range slices.Backward(lab.Spans[1:]) {
		packet = s.Overhead.On(packet, s.MTU)
	}
	return packet
}

// Readable says whether a frame holds the beginning of one of the payloads.
func (p Passage) Readable(frame []byte) bool {
	payload := make([]byte, min(p.Size, small))
	for first := range networktest.Exchanged {
		for i := range payload {
			payload[i] = byte(first + i)
		}
		if bytes.Contains(frame, payload) {
			return true
		}
	}
	return false
}

// A Judge says what is wrong with what passed.
type Judge func(Passage) error

// OnWire captures what passes the underlay in both directions from the first packet on, and has it judged: payloads
// small and of full size in both families. It also sends more than the span takes, from hosts and from containers, see
// [networktest.Bed.PathMTU].
func OnWire(t testing.TB, n network.Network, between stack.Stack, judge Judge) (err error) {
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
	var taps [2]Tap
	for i := range taps {
		if taps[i], err = Listen(b, i); err != nil {
			return err
		}
		defer taps[i].Close()
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		header := map[string]int{"ipv4": header4, "ipv6": header6}[family]
		for _, size := range []int{small, lab.MTU - header - udpHeader} {
			p := Passage{Span: lab.Top(), lab: lab, Size: size, Packet: header + udpHeader + size}
			err := b.Exchange(family, size)
			for i := range taps {
				var rerr error
				p.Frames[i], rerr = taps[i].Passed()
				err = errors.Join(err, rerr)
			}
			if err == nil {
				err = judge(p)
			}
			if err != nil {
				return fmt.Errorf("datagrams of %d bytes over %s: %w", size, family, err)
			}
		}
		if err := larger(b, family, lab.Top().MTU-header-udpHeader+1); err != nil {
			return fmt.Errorf("over %s: %w", family, err)
		}
		for i := range taps { // of what was larger
			if _, err := taps[i].Passed(); err != nil {
				return err
			}
		}
	}
	return b.PathMTU(n)
}

// A Tap is what the underlay receives from a host. What is written to it goes to the host.
type Tap struct{ *os.File }

// Listen taps the underlay at one of the hosts, from 0.
func Listen(b *networktest.Bed, at int) (Tap, error) {
	h, err := b.Underlay.Kernel.Links("")
	if err != nil {
		return Tap{}, err
	}
	port, err := h.ByName(b.Lab.Hosts[at].Name())
	if err != nil {
		return Tap{}, err
	}
	var f *os.File
	err = b.Underlay.Kernel.Do("", func() (err error) {
		f, err = sock.Frames(port.Index)
		return err
	})
	return Tap{f}, err
}

// Passed returns what has come, when nothing has for a while.
func (t Tap) Passed() (frames [][]byte, err error) {
	for frame := make([]byte, 1<<16); ; {
		if err := t.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return nil, err
		}
		n, err := t.Read(frame)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return frames, nil
		case err != nil:
			return nil, err
		}
		frames = append(frames, bytes.Clone(frame[:n]))
	}
}

// patience is how long packets may take.
const patience = 200 * time.Millisecond

// larger sends a datagram from host to host that is larger than the span takes: it is refused if it may not be cut, and
// arrives if it may.
func larger(b *networktest.Bed, family string, size int) error {
	top := b.Lab.Top()
	from, to := top.Reach[0][0], top.Reach[0][1]
	source, sink := from.IPv4, to.IPv4
	if family == "ipv6" {
		source, sink = from.IPv6, to.IPv6
	}
	in, err := open(b.Hosts[1], sink, false)
	if err != nil {
		return err
	}
	defer in.Close()
	for _, whole := range []bool{true, false} {
		out, err := open(b.Hosts[0], source, whole)
		if err != nil {
			return err
		}
		_, err = out.WriteToUDPAddrPort(make([]byte, size), in.LocalAddr().(*net.UDPAddr).AddrPort())
		_ = out.Close()
		switch {
		case whole && !errors.Is(err, syscall.EMSGSIZE):
			return fmt.Errorf("a datagram of %d bytes, one more than the span takes whole: %w, want that it is too long", size,
				err)
		case !whole && err != nil:
			return fmt.Errorf("a datagram of %d bytes that may be cut: %w", size, err)
		}
	}
	n, err := in.Read(make([]byte, size+1))
	if err != nil || n != size {
		return fmt.Errorf("of a datagram of %d bytes that may be cut %d arrive: %w", size, n, err)
	}
	return nil
}

// open opens a socket of a host at one of its addresses.
func open(m *networktest.Machine, a netip.Addr, whole bool) (c *net.UDPConn, err error) {
	if err := m.Do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
		return err
	}); err != nil {
		return nil, err
	}
	if whole {
		raw, err := c.SyscallConn()
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		var ferr error
		err = raw.Control(func(fd uintptr) { ferr = (sock.Socket{FD: int(fd)}).SetNoFragment(a.Is6()) })
		if err := errors.Join(err, ferr); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, c.SetDeadline(time.Now().Add(10 * patience))
}
