package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/relay"
	"github.com/nettoll/nettoll/internal/testnet"
)

// role has the test binary be the process.
const role = "relay"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == role {
		control, err := net.FileConn(os.Stdin)
		if err == nil {
			err = relay.Serve(context.Background(), control, os.Args[2:], os.Stderr)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testnet.Main(m)
}

// A running process has a pair of devices: near0 in a namespace, and far0 in another one.
type running struct {
	near, far *testnet.Machine
	control   net.Conn
	cmd       *exec.Cmd
	said      bytes.Buffer
}

// start makes a device far0, unless far is another name, and starts the process for that one.
func start(t *testing.T, far string) *running {
	t.Helper()
	r := &running{near: testnet.New(t), far: testnet.New(t)}
	testnet.Skip(t, link.CheckTUN("move frames"))
	if err := r.far.Do(func() error {
		return errors.Join(netlink.LinkAdd(&netlink.Tuntap{
			LinkAttrs: netlink.LinkAttrs{Name: "far0"}, Mode: netlink.TUNTAP_MODE_TAP, NonPersist: false,
		}), configure("far0", "10.9.0.1/24"))
	}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "far")
	if err := netns.Bind(r.far.NS, path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Unbind(path) })
	args, err := relay.Args([]relay.Wire{{Near: "near0", Far: far, Path: path}})
	if err != nil {
		t.Fatal(err)
	}
	own, theirs, err := process.Control()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	r.control, r.cmd = own, exec.Command("/proc/self/exe", append([]string{role}, args...)...)
	r.cmd.Stdin, r.cmd.Stderr = theirs, &r.said
	if err := r.near.Do(r.cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = own.Close()
		_ = r.cmd.Wait()
	})
	return r
}

// configure gives a link an address and sets it up.
func configure(name, address string) error {
	h, err := link.Open()
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.ByName(name)
	if err != nil {
		return err
	}
	return errors.Join(h.AddAddress(l.Index, netip.MustParsePrefix(address)), h.SetUp(l.Index, true))
}

// ready waits until the process says that it is.
func (r *running) ready(t *testing.T) {
	t.Helper()
	said := make([]byte, len(process.Ready))
	if _, err := io.ReadFull(r.control, said); err != nil || string(said) != process.Ready {
		t.Fatalf("said %q: %v", said, err)
	}
}

// ended waits for its end, and returns what it has said.
func (r *running) ended(t *testing.T) string {
	t.Helper()
	late := time.AfterFunc(10*time.Second, func() { _ = r.cmd.Process.Kill() })
	defer late.Stop()
	_ = r.cmd.Wait() // its status is seen by what it says
	return r.said.String()
}

// Streams in both directions arrive as they were sent, in segments larger than the MTU.
func TestServe(t *testing.T) {
	r := start(t, "far0")
	r.ready(t)
	var server net.Listener
	if err := r.near.Do(func() (err error) {
		if err = configure("near0", "10.9.0.2/24"); err == nil {
			server, err = net.Listen("tcp4", "10.9.0.2:7000")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	sent := bytes.Repeat([]byte("nettoll "), 1<<18)
	go func() { // sends back what it gets
		c, err := server.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, c)
	}()
	var client net.Conn
	if err := r.far.Do(func() (err error) {
		client, err = net.DialTimeout("tcp4", "10.9.0.2:7000", 5*time.Second)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = client.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("what comes back is not what was sent: %v", err)
	}
	if err := r.near.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		all, err := h.Traffic()
		for _, l := range all {
			if l.Name == "near0" && (l.Received == 0 || l.Received > uint64(len(sent)/1448)) {
				t.Errorf("%d frames have come for %d bytes, want fewer than segments of one frame each", l.Received, len(sent))
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.control.Close(); err != nil {
		t.Fatal(err)
	}
	if said := r.ended(t); r.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("it has ended with %v: %s", r.cmd.ProcessState, said)
	}
}

// A process without its device ends and names it.
func TestServeFails(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		if said := start(t, "far1").ended(t); !strings.Contains(said, "open TAP device far1 in ") ||
			!strings.Contains(said, "not found") {
			t.Errorf("it says %q", said)
		}
	})
	t.Run("deleted", func(t *testing.T) {
		r := start(t, "far0")
		r.ready(t)
		if err := r.far.Do(func() error {
			h, err := link.Open()
			if err != nil {
				return err
			}
			defer h.Close()
			l, err := h.ByName("far0")
			if err != nil {
				return err
			}
			return h.Delete(l.Index)
		}); err != nil {
			t.Fatal(err)
		}
		if said := r.ended(t); !strings.Contains(said, "read frames of far0 in ") {
			t.Errorf("it says %q", said)
		}
	})
	t.Run("arguments", func(t *testing.T) {
		for _, args := range [][]string{nil, {"near0"}} {
			if err := relay.Serve(t.Context(), nil, args, io.Discard); err == nil {
				t.Errorf("arguments %q are taken", args)
			}
		}
	})
}
