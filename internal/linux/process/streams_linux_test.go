package process

import (
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
)

// up makes 127.0.0.1 reachable.
func up(t *testing.T) {
	t.Helper()
	h, err := link.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	lo, err := h.ByName("lo")
	if err == nil && !lo.Up {
		err = h.SetUp(lo.Index, true)
	}
	testnet.Skip(t, err)
}

// Options set through a copy of a child's socket apply to the child's socket.
func TestStreams(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Fatal(err) // make needs it, too
	}
	up(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// A child process of the program has the stream.
	c := spawn(t, fmt.Sprintf("bash -c 'exec 5<>/dev/tcp/127.0.0.1/%d; read <&5'; :", l.Addr().(*net.TCPAddr).Port))
	known := map[string]bool{}
	streams := func() []int {
		fds, err := c.Streams(known)
		if err != nil {
			t.Fatal(err)
		}
		return fds
	}
	var fds []int
	for range 500 {
		if fds = streams(); len(fds) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(fds) != 1 || len(known) != 1 {
		t.Fatalf("%d streams, known %v, want one", len(fds), known)
	}
	if err := unix.SetsockoptString(fds[0], unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno"); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fds[0])
	if again := streams(); len(again) != 0 {
		t.Errorf("%d streams that are known", len(again))
	}
	clear(known)
	fds = streams()
	if len(fds) != 1 {
		t.Fatalf("%d streams, want one", len(fds))
	}
	defer unix.Close(fds[0])
	if got, err := unix.GetsockoptString(fds[0], unix.IPPROTO_TCP, unix.TCP_CONGESTION); got != "reno" || err != nil {
		t.Errorf("congestion control %q, %v", got, err)
	}
}

// A listening socket is not among the streams.
func TestListening(t *testing.T) {
	up(t)
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	l, err := plain.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := spawn(t, "exec sleep 100", f)
	fds, err := c.Listening()
	if err != nil || len(fds) != 1 {
		t.Fatalf("%d sockets that listen, %v, want one", len(fds), err)
	}
	defer unix.Close(fds[0])
	if streams, err := c.Streams(map[string]bool{}); err != nil || len(streams) != 0 {
		t.Errorf("%d streams, %v, want none", len(streams), err)
	}
}
