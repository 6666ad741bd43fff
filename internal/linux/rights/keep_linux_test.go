package rights_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/rights"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// A thread that has given up rights is refused what takes them. No other thread is.
func TestKeep(t *testing.T) {
	m := testnet.New(t)
	const netRaw = 1 << 13
	raw := func() error {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_UDP)
		if err == nil {
			err = syscall.Close(fd)
		}
		return err
	}
	for _, c := range []struct {
		set  uint64
		want error
	}{{0, syscall.EPERM}, {netRaw, nil}, {1<<63 | netRaw, nil}, {^uint64(netRaw), syscall.EPERM}} {
		var status string
		if err := netns.Spend(int(m.NS.Fd()), func() error {
			if err := rights.Keep(c.set); err != nil {
				return err
			}
			text, err := os.ReadFile("/proc/thread-self/status")
			status = string(text)
			return errors.Join(err, raw())
		}); !errors.Is(err, c.want) {
			t.Errorf("with %x a raw socket is %v, want %v\n%s", c.set, err, c.want, status)
		}
		if c.set == 0 && (!strings.Contains(status, "CapEff:\t0000000000000000") ||
			!strings.Contains(status, "CapPrm:\t0000000000000000")) {
			t.Errorf("a thread without rights has some:\n%s", status)
		}
	}
	for range 100 {
		if err := m.Do(raw); err != nil {
			t.Fatalf("a thread has lost rights that another one gave up: %v", err)
		}
	}
}

// Whoever makes a user namespace has all rights in its network, also after giving up their own. A thread that has kept
// some has those alone.
func TestKeepElsewhere(t *testing.T) {
	testnet.Root(t)
	const netRaw = 1 << 13
	cmd := exec.Command("sleep", "60")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100_000, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, UidMappings: ids, GidMappings: ids,
		Pdeathsig: syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		testnet.Lacks(t, fmt.Sprintf("a user namespace (%v)", err))
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	ns, err := netns.Open(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	for _, c := range []struct {
		set  uint64
		want error
	}{{0, syscall.EPERM}, {^uint64(netRaw), syscall.EPERM}, {netRaw, nil}} {
		if err := netns.Spend(int(ns.Fd()), func() error {
			if err := rights.Keep(c.set); err != nil {
				return err
			}
			fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_UDP)
			if err == nil {
				err = syscall.Close(fd)
			}
			return err
		}); !errors.Is(err, c.want) {
			t.Errorf("with %x a raw socket is %v, want %v", c.set, err, c.want)
		}
	}
	if uid := os.Geteuid(); uid != 0 {
		t.Errorf("this process has become user %d", uid)
	}
}

// Own says of this process what the kernel does.
func TestOwn(t *testing.T) {
	got, err := rights.Own()
	if err != nil {
		t.Fatal(err)
	}
	if all, err := rights.All(); err != nil || all != got.Effective || !got.Network {
		t.Errorf("%x effective and %x permitted (%v), want the same in a test", got.Effective, all, err)
	}
}
