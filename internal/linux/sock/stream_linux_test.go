package sock_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
)

// stream returns both ends of a connection over loopback.
func stream(t *testing.T) (near, far sock.Socket) {
	t.Helper()
	m := inside(t)
	at := netip.MustParseAddrPort("127.0.0.1:7001")
	var listener sock.Socket
	err := m.Do(func() (err error) {
		if listener, err = sock.Stream(at, "reno"); err == nil {
			err = listener.Listen()
		}
		if err == nil {
			near, err = sock.Stream(netip.AddrPortFrom(at.Addr(), 0), "reno")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Cleanup(func() { near.Close() })
	if err := near.Connect(at, time.Second); err != nil {
		t.Fatal(err)
	}
	if far, err = listener.Accept(time.Second); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}

// What is there when the time is over counts, even if the thread had slept until then.
func TestLate(t *testing.T) {
	m := inside(t)
	at := netip.MustParseAddrPort("127.0.0.1:7002")
	if err := m.Do(func() error {
		listener, err := sock.Stream(at, "reno")
		if err != nil {
			return err
		}
		defer listener.Close()
		near, err := sock.Stream(netip.AddrPortFrom(at.Addr(), 0), "reno")
		if err != nil {
			return err
		}
		defer near.Close()
		to := sock.NewAddress(at)
		if err := errors.Join(listener.Listen(), near.BeginConnect(&to)); err != nil {
			return err
		}
		if err := near.EndConnect(time.Second); err != nil {
			return err
		}
		far, err := listener.Accept(-time.Second)
		if err != nil {
			return fmt.Errorf("a connection that waits: %w", err)
		}
		far.Close()
		if _, err := listener.Accept(-time.Second); !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("no connection waits: %w", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TCP_INFO counts what was delivered, and reading it allocates nothing.
func TestTCPInfo(t *testing.T) {
	near, far := stream(t)
	before, err := near.TCPInfo()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1000)
	for range 3 {
		if n, errno := near.Send(&buf[0], len(buf), 0); n != len(buf) || errno != 0 {
			t.Fatal(n, errno)
		}
		if n, errno := far.Recv(&buf[0], len(buf), 0); n != len(buf) || errno != 0 {
			t.Fatal(n, errno)
		}
	}
	var got sock.TCPInfo
	// acknowledged within 40 ms
	for end := time.Now().Add(5 * time.Second); got.Delivered != 3 && time.Now().Before(end); {
		after, err := near.TCPInfo()
		if err != nil {
			t.Fatal(err)
		}
		got = after.Since(before)
	}
	if got.Connections != 1 || got.Delivered != 3 || got.Bytes != 3000 || got.Acks < 1 || got.Acks > 3 ||
		got.Resent != 0 || got.RTT <= 0 || got.MinRTT <= 0 || got.Window <= 0 {
		t.Errorf("after three segments: %+v", got)
	}
	twice := got
	twice.Add(got)
	if twice.Connections != 2 || twice.Delivered != 6 || twice.RTT != 2*got.RTT || twice.Window != 2*got.Window {
		t.Errorf("twice %+v is %+v", got, twice)
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = near.TCPInfo() }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if i, err := (sock.Socket{FD: -1}).TCPInfo(); err == nil || i != (sock.TCPInfo{}) {
		t.Errorf("TCP_INFO of no socket: %+v, %v", i, err)
	}
}

// Every send with zero copy is completed once, and over loopback the kernel has copied the data. Until the completions
// are taken, the poller reports them.
func TestZeroCopy(t *testing.T) {
	near, far := stream(t)
	if err := near.SetZeroCopy(); err != nil {
		t.Fatal(err)
	}
	const sends = 50
	buf, in := make([]byte, 4096), make([]byte, 4096)
	reaper, poller := sock.NewReaper(), sock.NewPoller(1)
	if done, copied := reaper.Reap(near); done != 0 || copied != 0 {
		t.Errorf("%d sends are completed before the first, %d copied", done, copied)
	}
	var done, copied uint32
	for range sends {
		if n, errno := near.Send(&buf[0], len(buf), sock.ZeroCopy); n != len(buf) || errno != 0 {
			t.Fatal(n, errno)
		}
		for got := 0; got < len(buf); {
			n, errno := far.Recv(&in[0], len(in), 0)
			if errno != 0 {
				t.Fatal(errno)
			}
			got += n
		}
	}
	for end := time.Now().Add(5 * time.Second); done < sends && time.Now().Before(end); {
		poller.Watch(0, near, false, false)
		poller.Wait(int64(time.Second))
		if read, write, told := poller.Ready(0); !told || read || write {
			t.Errorf("with completions to be taken: read %t, write %t, told %t", read, write, told)
		}
		for {
			n, c := reaper.Reap(near)
			if n == 0 {
				break
			}
			done += n
			copied += c
		}
	}
	if done != sends || copied != sends {
		t.Errorf("%d of %d sends are completed, %d copied", done, sends, copied)
	}
	if n := testing.AllocsPerRun(10, func() { reaper.Reap(near) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// A poller reports which of several sockets can be read or written, and when a connection is over.
func TestPoller(t *testing.T) {
	near, far := stream(t)
	p := sock.NewPoller(3) // the third is not watched
	b := byte(1)
	look := func(what string, want [3][3]bool, read, write bool) {
		t.Helper()
		p.Watch(0, near, read, write)
		p.Watch(1, far, read, write)
		p.Wait(int64(5 * time.Millisecond))
		var got [3][3]bool
		for i := range got {
			got[i][0], got[i][1], got[i][2] = p.Ready(i)
		}
		if got != want {
			t.Errorf("%s: read, write, told %v, want %v", what, got, want)
		}
	}
	look("nothing sent", [3][3]bool{}, true, false)
	look("both can be written", [3][3]bool{{false, true}, {false, true}}, true, true)
	if _, errno := near.Send(&b, 1, 0); errno != 0 {
		t.Fatal(errno)
	}
	look("one byte sent", [3][3]bool{{}, {true}}, true, false)
	far.Abort()
	p.Watch(1, sock.Socket{FD: -1}, true, true)
	p.Watch(0, near, false, false)
	p.Wait(int64(time.Second))
	if read, write, _ := p.Ready(0); !read || !write {
		t.Errorf("reset by its peer: read %t, write %t, want that a call says why not", read, write)
	}
	if read, write, told := p.Ready(1); read || write || told {
		t.Error("what is not watched is ready")
	}
}

// Data held back by Nagle's algorithm is sent when it is switched off.
func TestNagle(t *testing.T) {
	near, far := stream(t)
	b := byte(1)
	for range 3 {
		near.Nagle(true)
		for range 3 { // the first is sent, the others wait for its acknowledgement
			if _, errno := near.Send(&b, 1, 0); errno != 0 {
				t.Fatal(errno)
			}
		}
		near.Nagle(false)
		in := make([]byte, 3)
		for got := 0; got < 3; {
			n, errno := far.Recv(&in[got], 3-got, sock.DontWait)
			if errno != 0 {
				t.Fatalf("%d of 3 bytes have come: %v", got, errno)
			}
			got += n
		}
	}
}
