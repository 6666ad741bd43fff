package sock_test

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
)

// pair returns two connected sockets on loopback, and the address of the first.
func pair(t *testing.T) (a, b sock.Socket) {
	t.Helper()
	any4 := netip.MustParseAddrPort("127.0.0.1:0")
	open := func(local, remote netip.AddrPort) sock.Socket {
		s, err := sock.UDP(local, remote)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetTimeout(time.Second); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	a = open(any4, netip.AddrPort{})
	at, err := a.Local()
	if err != nil {
		t.Fatal(err)
	}
	return a, open(any4, at)
}

func fill(n int) []byte {
	buf := make([]byte, n)
	for i := range buf {
		buf[i] = byte(i)
	}
	return buf
}

// Slots of a batch arrive one by one, each with its own length and source.
func TestBatch(t *testing.T) {
	receiver, sender := pair(t)
	const stride, slots = 100, 5
	buf := fill(stride * slots)
	out := sock.NewBatch(buf, stride, 60)
	out.SetLen(2, 7)
	if n, errno := sender.SendBatch(out, 4, 0); n != 4 || errno != 0 {
		t.Fatalf("sent %d of 4: %v", n, errno)
	}
	in := sock.NewRecvBatch(3, 50, false)
	var got [][]byte
	for range 2 {
		n, errno := receiver.RecvBatch(in, sock.WaitForOne)
		if errno != 0 {
			t.Fatal(errno)
		}
		for i := range n {
			got = append(got, bytes.Clone(in.Message(i)))
			if in.Segment(i) != 0 {
				t.Errorf("segments of %d bytes without anybody asking", in.Segment(i))
			}
		}
	}
	if len(got) != 4 {
		t.Fatalf("%d messages, want 4", len(got))
	}
	for i, message := range got {
		want := buf[i*stride:][:50] // the rest is truncated
		if i == 2 {
			want = want[:7]
		}
		if !bytes.Equal(message, want) {
			t.Errorf("message %d: %d bytes %v, want %v", i, len(message), message, want)
		}
	}
	if n, errno := receiver.RecvBatch(in, sock.DontWait); errno != sock.Again {
		t.Errorf("nothing there: %d, %v", n, errno)
	}
	// A message with its source address can be answered, both by the call for one message and by the call for many.
	answer := byte(42)
	if _, errno := receiver.SendTo(&answer, 1, 0, in.From(0)); errno != 0 {
		t.Fatal(errno)
	}
	var back [2]byte
	if n, errno := sender.Recv(&back[0], len(back), 0); n != 1 || errno != 0 || back[0] != answer {
		t.Fatalf("answer %v: %d, %v", back, n, errno)
	}
	if _, errno := sender.Send(&answer, 1, 0); errno != 0 {
		t.Fatal(errno)
	}
	var from sock.Address
	if n, errno := receiver.RecvFrom(&back[0], len(back), 0, &from); n != 1 || errno != 0 {
		t.Fatalf("%d, %v", n, errno)
	}
	if _, errno := receiver.SendTo(&answer, 1, 0, &from); errno != 0 {
		t.Fatal(errno)
	}
	if n, errno := sender.Recv(&back[0], len(back), 0); n != 1 || errno != 0 {
		t.Fatalf("answer to one: %d, %v", n, errno)
	}
}

// The kernel joins the segments that it has cut, if that was requested; otherwise they arrive one by one.
func TestSegments(t *testing.T) {
	for _, joined := range []bool{true, false} {
		receiver, sender := pair(t)
		if joined {
			if err := receiver.SetCoalesce(); err != nil {
				t.Fatal(err)
			}
		}
		const size, most = 100, 64
		if err := sender.SetSegment(size); err != nil {
			t.Fatal(err)
		}
		in := sock.NewRecvBatch(most, 1<<16, joined)
		if n, errno := receiver.RecvBatch(in, sock.WaitForOne); errno != 0 { // what SetSegment has sent
			t.Fatalf("%d, %v", n, errno)
		}
		buf := fill(size*(most-1) + 30)
		if n, errno := sender.Send(&buf[0], len(buf), 0); n != len(buf) || errno != 0 {
			t.Fatalf("sent %d: %v", n, errno)
		}
		n, errno := receiver.RecvBatch(in, sock.WaitForOne)
		switch {
		case errno != 0:
			t.Fatal(errno)
		case joined && (n != 1 || in.Segment(0) != size || !bytes.Equal(in.Message(0), buf)):
			t.Errorf("joined: %d messages, the first of %d bytes in segments of %d", n, len(in.Message(0)), in.Segment(0))
		case !joined && (n != most || !bytes.Equal(in.Message(most-1), buf[size*(most-1):])):
			t.Errorf("in pieces: %d messages", n)
		}
	}
	_, sender := pair(t)
	if err := sender.SetSegment(1 << 16); err == nil {
		t.Error("segments of 65536 bytes")
	}
}

// A full receive buffer drops packets, and the number is reported.
func TestDrops(t *testing.T) {
	receiver, sender := pair(t)
	before, known := receiver.Drops()
	if !known {
		t.Fatal("the kernel does not say what it drops")
	}
	const many = 2000
	buf := fill(100)
	for range many {
		if _, errno := sender.Send(&buf[0], len(buf), 0); errno != 0 {
			t.Fatal(errno)
		}
	}
	after, _ := receiver.Drops()
	got := int64(0)
	for {
		if _, errno := receiver.Recv(&buf[0], len(buf), sock.DontWait); errno != 0 {
			break
		}
		got++
	}
	if got == many || got+after-before != many {
		t.Errorf("%d received and %d dropped of %d sent", got, after-before, many)
	}
}

func TestBatchAllocatesNothing(t *testing.T) {
	receiver, sender := pair(t)
	out, in := sock.NewBatch(fill(400), 100, 100), sock.NewRecvBatch(4, 100, true)
	if n := testing.AllocsPerRun(100, func() {
		sender.SendBatch(out, 4, 0)
		receiver.RecvBatch(in, sock.WaitForOne)
		receiver.Drops()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
