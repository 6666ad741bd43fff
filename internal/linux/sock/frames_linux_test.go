package sock_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet"
)

// A read whose deadline has passed returns nothing, even if a frame has arrived. TakeStamped returns it.
func TestTakeStamped(t *testing.T) {
	testnet.Root(t)
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	f, err := sock.Frames(lo.Index)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	frame := make([]byte, 1<<17)
	if n, _, err := sock.TakeStamped(f, frame); !errors.Is(err, io.EOF) {
		t.Errorf("before a frame: %d bytes, %v", n, err)
	}
	c, err := net.Dial("udp4", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	const sent = 14 + 20 + 8 + 100
	if err := f.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// The first one says that the link has received them. The second one is the error that nobody listens.
	if n, _, err := sock.ReadStamped(f, frame); err != nil || n != sent {
		t.Fatalf("%d bytes, %v; want %d", n, err, sent)
	}
	if err := f.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if n, _, err := sock.ReadStamped(f, frame); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %d bytes, %v", n, err)
	}
	for began := time.Now(); ; {
		n, _, err := sock.TakeStamped(f, frame)
		if err == nil && n > 0 {
			break
		}
		if !errors.Is(err, io.EOF) || time.Since(began) > 10*time.Second {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
}
