package host_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
)

// A tap captures what a link receives from one trace to the next, and sorts it by the outermost headers. It is gone
// after that.
func TestTap(t *testing.T) {
	k, _ := kernel(t, nil)
	ctx := t.Context()
	var s host.Stack
	testnet.Skip(t, s.Apply(ctx, k, lab()))
	defer func() {
		if err := s.Undo(t.Context(), k); err != nil {
			t.Error(err)
		}
	}()
	mark := []byte("a mark of 16 B..")
	var arrived *net.UDPConn
	if err := k.Do("", func() (err error) {
		arrived, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(10, 1, 0, 1), Port: 4711})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer arrived.Close()
	// send returns when the packets have arrived: on a busy machine the link receives them later.
	send := func(n int, text string) {
		t.Helper()
		if err := k.Do("c", func() error {
			c, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(10, 1, 0, 1), Port: 4711})
			if err != nil {
				return err
			}
			defer c.Close()
			const burst = 100 // of so many packets none is lost at the receiver
			for n := n; n > 0; n -= burst {
				for range min(n, burst) {
					if _, err := c.Write([]byte(text)); err != nil {
						return err
					}
				}
				for range min(n, burst) {
					if err := arrived.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
						return err
					}
					if _, err := arrived.Read(make([]byte, 100)); err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(q host.Question) []host.Frames {
		t.Helper()
		trace, err := s.Trace(ctx, k, q)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(trace.Frames, func(f host.Frames) bool { return f.Port != 4711 })
	}
	listening := host.Question{Tap: &host.Tap{Links: []string{"v0"}, Mark: mark}}
	send(1, "before "+string(mark))
	if got := ask(listening); got != nil {
		t.Errorf("a tap that begins has heard %+v", got)
	}
	send(3, "with "+string(mark))
	send(2, "without, and a little longer than the other one")
	// The frames are read while the next tap begins.
	want := []host.Frames{{
		Link: "v0", Wire: host.Wire{Family: "ipv4", Protocol: 17, Port: 4711}, Count: 5, Marked: 3, Longest: 14 + 20 + 8 + 47,
	}}
	if diff := cmp.Diff(want, ask(listening)); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	// Many frames are read, to the last one.
	const many = 5000
	send(many, string(mark))
	crowd := ask(listening)
	if len(crowd) != 1 || crowd[0].Count != many || crowd[0].Marked != many {
		t.Errorf("of %d frames with the mark %+v were heard", many, crowd)
	}
	send(1, "again")
	want[0].Count, want[0].Marked, want[0].Longest = 1, 0, 14+20+8+5
	if diff := cmp.Diff(want, ask(host.Question{})); diff != "" {
		t.Errorf("heard by the second tap (-want +got):\n%s", diff)
	}
	send(1, string(mark))
	if got := ask(host.Question{}); got != nil {
		t.Errorf("a tap that has ended has heard %+v", got)
	}
	// Kept frames are complete and in order.
	keeping := host.Question{Tap: &host.Tap{Links: []string{"v0"}, Mark: mark, Keep: true}}
	if _, err := s.Trace(ctx, k, keeping); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	send(1, "first")
	send(1, "second")
	last, err := s.Trace(ctx, k, host.Question{})
	if err != nil || last.Capture == nil || last.Capture.Left != 0 {
		t.Fatalf("kept %+v, %v", last.Capture, err)
	}
	file := last.Capture.PCAPNG
	if at := bytes.Index(file, []byte("first")); at < 0 || !bytes.Contains(file[at:], []byte("second")) {
		t.Errorf("kept %q", file)
	}
	// in an enhanced packet block the time is 5 words before the frame, whose headers have 42 bytes
	stamp := file[bytes.Index(file, []byte("first"))-42-16:]
	at := time.Unix(0, int64(binary.LittleEndian.Uint32(stamp))<<32|int64(binary.LittleEndian.Uint32(stamp[4:])))
	if at.Before(began) || at.After(time.Now()) {
		t.Errorf("the first was sent at %v, and received at %v", began, at)
	}
	if _, err := s.Trace(ctx, k, host.Question{Tap: &host.Tap{Links: []string{"v0", "nosuch"}}}); err == nil {
		t.Error("a tap listens at a link that does not exist")
	}
}

// FuzzWire checks that the headers of any frame are read without reading beyond its end.
func FuzzWire(f *testing.F) {
	ether := func(kind uint16, rest ...byte) []byte {
		return append(binary.BigEndian.AppendUint16(make([]byte, 12), kind), rest...)
	}
	v4 := func(protocol byte, fragment uint16, options int, rest ...byte) []byte {
		h := make([]byte, 20+4*options)
		h[0], h[9] = byte(0x45+options), protocol
		binary.BigEndian.PutUint16(h[6:], fragment)
		return ether(0x0800, slices.Concat(h, rest)...)
	}
	v6 := func(next byte, rest ...byte) []byte {
		h := make([]byte, 40)
		h[0], h[6] = 0x60, next
		return ether(0x86dd, slices.Concat(h, rest)...)
	}
	ports := []byte{0x9c, 0x40, 0x12, 0xb5, 0, 8, 0, 0}
	for _, tt := range []struct {
		frame []byte
		want  host.Wire
	}{
		{nil, host.Wire{}},
		{ether(0x0806, 1, 2, 3), host.Wire{Protocol: 0x0806}},
		{ether(0x0800, 0x45), host.Wire{Protocol: 0x0800}},
		{v4(17, 0, 0, ports...), host.Wire{Family: "ipv4", Protocol: 17, Port: 4789}},
		{v4(6, 0x4000, 3, ports...), host.Wire{Family: "ipv4", Protocol: 6, Port: 4789}},
		{v6(6, 0x12, 0xb5, 0x9c, 0x40), host.Wire{Family: "ipv6", Protocol: 6, Port: 4789}},
		{v6(17, 0x12, 0xb5, 0x9c, 0x40), host.Wire{Family: "ipv6", Protocol: 17, Port: 40000}},
		{v4(17, 0x2000, 0, ports...), host.Wire{Family: "ipv4", Protocol: 17, Port: 4789}},
		{v4(17, 0x2001, 0, ports...), host.Wire{Family: "ipv4", Protocol: 17}},
		{v4(17, 0, 0, 1, 2, 3), host.Wire{Family: "ipv4", Protocol: 17}},
		{v4(47, 0, 0, ports...), host.Wire{Family: "ipv4", Protocol: 47}},
		{v6(17, ports...), host.Wire{Family: "ipv6", Protocol: 17, Port: 4789}},
		{v6(0, append([]byte{58, 0, 0, 0, 0, 0, 0, 0}, ports...)...), host.Wire{Family: "ipv6", Protocol: 58}},
		{v6(44, append([]byte{17, 0, 0, 1, 0, 0, 0, 0}, ports...)...), host.Wire{Family: "ipv6", Protocol: 17, Port: 4789}},
		{v6(44, append([]byte{17, 0, 0, 9, 0, 0, 0, 0}, ports...)...), host.Wire{Family: "ipv6", Protocol: 17}},
		{v6(0, 17, 255, 0, 0, 0, 0, 0, 0), host.Wire{Family: "ipv6", Protocol: 17}},
	} {
		if got := host.WireOf(tt.frame); got != tt.want {
			f.Errorf("%x: %+v, want %+v", tt.frame, got, tt.want)
		}
		f.Add(tt.frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		w := host.WireOf(bytes.Clone(frame))
		if w.Family == "" && w.Port != 0 || w.Port != 0 && w.Protocol != 6 && w.Protocol != 17 || w.String() == "" {
			t.Errorf("%x: %+v", frame, w)
		}
	})
}
