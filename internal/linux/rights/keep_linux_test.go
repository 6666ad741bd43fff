package rights_test

import (
	"errors"
	"os"
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

// Own says of this process what the kernel does.
func TestOwn(t *testing.T) {
	got, err := rights.Own()
	if err != nil {
		t.Fatal(err)
	}
	if all, err := rights.All(); err != nil || all != got.Effective {
		t.Errorf("%x effective and %x permitted (%v), want the same in a test", got.Effective, all, err)
	}
}
