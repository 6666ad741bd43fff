package netns_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestDo(t *testing.T) {
	testnet.Root(t)
	ns, err := netns.New(nil)
	testnet.Skip(t, err)
	defer ns.Close()
	home, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if err := netns.Do(int(ns.Fd()), func() error {
		here, err := netns.Current()
		if err != nil {
			return err
		}
		defer here.Close()
		if same, err := netns.Same(here, ns); err != nil || !same {
			t.Errorf("Do calls in another namespace (%v)", err)
		}
		if same, err := netns.Same(here, home); err != nil || same {
			t.Errorf("Do calls in the namespace of its caller (%v)", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	want := errors.New("from inside")
	if err := netns.Do(int(ns.Fd()), func() error { return want }); !errors.Is(err, want) {
		t.Errorf("Do returns %v, want %v", err, want)
	}
	if err := netns.Do(-1, func() error { return nil }); err == nil {
		t.Error("Do with no file succeeds")
	}
	if err := netns.Do(int(ns.Fd()), func() error { runtime.Goexit(); return nil }); err == nil ||
		!strings.Contains(err.Error(), "ended its goroutine") {
		t.Errorf("Do of a function that ends its goroutine returns %v", err)
	}
	// No thread has stayed there: Main also checks that.
	for range 100 {
		here, err := netns.Current()
		if err != nil {
			t.Fatal(err)
		}
		same, err := netns.Same(here, home)
		if err != nil || !same {
			t.Fatalf("a thread came back into another namespace (%v)", err)
		}
		_ = here.Close()
		runtime.Gosched()
	}
}

// What Spend has called runs inside, on a thread that is gone afterwards and is not the first one.
func TestSpend(t *testing.T) {
	m := testnet.New(t)
	for range 50 {
		var thread string
		want := errors.New("from inside")
		if err := netns.Spend(int(m.NS.Fd()), func() error {
			here, err := netns.Current()
			if err != nil {
				return err
			}
			defer here.Close()
			if same, err := netns.Same(here, m.NS); err != nil || !same {
				t.Errorf("Spend calls in another namespace (%v)", err)
			}
			thread, err = os.Readlink("/proc/thread-self")
			return errors.Join(want, err)
		}); !errors.Is(err, want) {
			t.Fatalf("Spend returns %v, want %v", err, want)
		}
		if thread == fmt.Sprintf("%d/task/%[1]d", os.Getpid()) {
			t.Fatal("Spend has spent the first thread, which cannot end")
		}
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat("/proc/" + thread); errors.Is(err, fs.ErrNotExist) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("thread %s goes on", thread)
			}
		}
	}
	if err := netns.Spend(-1, func() error { return nil }); err == nil {
		t.Error("Spend with no file succeeds")
	}
}

func TestHere(t *testing.T) {
	m := testnet.New(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	same := func(want bool) {
		here, err := netns.Current()
		if err != nil {
			t.Fatal(err)
		}
		defer here.Close()
		if got, err := netns.Same(here, m.NS); err != nil || got != want {
			t.Errorf("inside: %v (%v), want %v", got, err, want)
		}
	}
	want := errors.New("from inside")
	if err := netns.Here(int(m.NS.Fd()), func() error { same(true); return want }); !errors.Is(err, want) {
		t.Errorf("Here returns %v, want %v", err, want)
	}
	same(false)
	if err := netns.Here(-1, func() error { return nil }); err == nil {
		t.Error("Here with no file succeeds")
	}
}

func TestSocketStays(t *testing.T) {
	m := testnet.New(t)
	var c *net.UDPConn
	if err := m.Do(func() (err error) {
		c, err = net.ListenUDP("udp4", nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// The machine's lo is down, and so is that of this process: only the error distinguishes them from a working one.
	if _, err := c.WriteToUDP([]byte("x"), &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}); err == nil {
		t.Error("a socket of a namespace without routes sends")
	}
}

func TestBind(t *testing.T) {
	m := testnet.New(t)
	path := filepath.Join(m.Dir, "a")
	ns, err := netns.New(func() error { return nil })
	testnet.Skip(t, err)
	if err := netns.Bind(ns, path); err != nil {
		t.Fatal(err)
	}
	if err := netns.Bind(ns, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Bind to what is there = %v, want %v", err, fs.ErrExist)
	}
	again, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := netns.Same(ns, again); err != nil || !same {
		t.Errorf("another namespace stands there (%v)", err)
	}
	if err := errors.Join(ns.Close(), again.Close()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := netns.Unbind(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := netns.Open(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of what is gone = %v, want %v", err, fs.ErrNotExist)
	}
	plain := filepath.Join(m.Dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := netns.Open(plain); err == nil || !strings.Contains(err.Error(), "is none") {
		t.Errorf("Open of a plain file = %v", err)
	}
	if err := netns.Unbind(plain); err != nil {
		t.Error(err)
	}
}

func TestNewFails(t *testing.T) {
	testnet.Root(t)
	want := errors.New("from inside")
	if f, err := netns.New(func() error { return want }); !errors.Is(err, want) || f != nil {
		t.Errorf("New = %v, %v, want %v", f, err, want)
	}
}
