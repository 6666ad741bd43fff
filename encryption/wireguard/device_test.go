package wireguard_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/wireguard"
	"github.com/nettoll/nettoll/host"
	driver "github.com/nettoll/nettoll/internal/linux/wireguard"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
)

// raise builds a lab of two hosts.
func raise(t *testing.T, impl string) *networktest.Bed {
	t.Helper()
	between := carriertest.Choose(t, encryption.Kind{wireguard.Encryption{}}, map[string]string{"impl": impl})
	lab, err := network.Compose(networktest.Lab(2, 1), between)
	if err != nil {
		t.Fatal(err)
	}
	return encryptiontest.Raise(t, lab)
}

// told is what the device of host 1 was told.
func told(t *testing.T, k *host.Kernel) driver.Config {
	t.Helper()
	key := func(of int) driver.Private {
		random, err := k.Derive(fmt.Sprintf("wireguard of host %d", of))
		if err != nil {
			t.Fatal(err)
		}
		p, err := driver.NewPrivate(random)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	theirs, err := key(2).Public()
	if err != nil {
		t.Fatal(err)
	}
	c := driver.Config{Key: key(1), Port: 51820, Peers: []driver.Peer{
		{Key: theirs, Endpoint: netip.MustParseAddrPort("198.18.0.2:51820")},
	}}
	for _, a := range []string{"198.19.1.2/32", "fd00:198:19:1::2/128", "10.2.0.0/16", "fd00:10:2::/64"} {
		c.Peers[0].Allowed = append(c.Peers[0].Allowed, netip.MustParsePrefix(a))
	}
	return c
}

// Verify notices another key, peer, endpoint, range or port, and shows no private key.
func TestTampering(t *testing.T) {
	other := func() driver.Private {
		p, err := driver.NewPrivate([]byte(strings.Repeat("x", 32)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	public, err := other().Public()
	if err != nil {
		t.Fatal(err)
	}
	for _, impl := range []string{"kernel", "embedded"} {
		t.Run(impl, func(t *testing.T) {
			b := raise(t, impl)
			k := b.Hosts[0].Kernel
			set := func(c driver.Config) {
				t.Helper()
				err := k.Do("", func() error {
					if impl == "kernel" {
						return driver.SetKernel("wg0", c)
					}
					return driver.Set(k.Running("wireguard").Control(), c)
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for what, change := range map[string]func(*driver.Config){
				"public key":   func(c *driver.Config) { c.Key = other() },
				"port":         func(c *driver.Config) { c.Port = 51821 },
				"want present": func(c *driver.Config) { c.Peers = nil },
				"want absent": func(c *driver.Config) {
					c.Peers = append(c.Peers, driver.Peer{Key: public, Endpoint: c.Peers[0].Endpoint})
				},
				"endpoint of peer":  func(c *driver.Config) { c.Peers[0].Endpoint = netip.MustParseAddrPort("198.18.0.3:51820") },
				"allowed addresses": func(c *driver.Config) { c.Peers[0].Allowed = c.Peers[0].Allowed[1:] },
				"allowed addresses ": func(c *driver.Config) {
					c.Peers[0].Allowed = append(c.Peers[0].Allowed, netip.MustParsePrefix("0.0.0.0/0"))
				},
			} {
				c := told(t, k)
				change(&c)
				set(c)
				err := b.Verify(t)
				if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), strings.TrimSpace(what)) {
					t.Errorf("Verify = %v, want a drift with %q", err, what)
				}
				set(told(t, k))
				if err := b.Verify(t); err != nil {
					t.Fatalf("as it was told before: %v", err)
				}
			}
			if err := b.Exchange("ipv4", 28); err != nil {
				t.Error(err)
			}
		})
	}
}

// A process that is killed is noticed with what became of it, its link is gone, and the rest can be undone.
func TestDeath(t *testing.T) {
	b := raise(t, "embedded")
	k := b.Hosts[0].Kernel
	r := k.Running("wireguard")
	if err := syscall.Kill(r.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it was killed, and is not told to have died")
	}
	err := b.Verify(t)
	if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), "wireguard died: signal: killed") {
		t.Errorf("Verify = %v, want a drift that says how it died", err)
	}
	if err := b.Undo(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(b.Apply(t), b.Verify(t)); err != nil {
		t.Errorf("it cannot be built once more: %v", err)
	}
}

// Without the secret of a lab nothing is made, and the error says so.
func TestNoSecret(t *testing.T) {
	b := raise(t, "auto")
	if err := b.Undo(); err != nil {
		t.Fatal(err)
	}
	b.Hosts[0].Kernel.Entrust(host.Secret{})
	if err := b.Apply(t); err == nil || !strings.Contains(err.Error(), "was not given the secret of its lab") {
		t.Errorf("Apply = %v", err)
	}
}

// No key is where others could read it: in a step, in what was kept, in the command line, the environment, the log or
// the files of the process, or in what a drift says. What is looked for is what the device has.
func TestKeysAreNotShown(t *testing.T) {
	b := raise(t, "embedded")
	m := b.Hosts[0]
	random, err := m.Kernel.Derive("wireguard of host 1")
	if err != nil {
		t.Fatal(err)
	}
	clamped := append([]byte(nil), random...)
	clamped[0] &= 248
	clamped[31] = clamped[31]&127 | 64
	r := m.Kernel.Running("wireguard")
	// as a control: the device says that it has the key
	if _, err := r.Control().Write([]byte("get=1\n\n")); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 1<<16)
	n, err := r.Control().Read(said)
	if err != nil || !strings.Contains(string(said[:n]), hex.EncodeToString(clamped)) {
		t.Fatalf("the device does not have the key that is looked for: %v", err)
	}
	places, _ := encryptiontest.Shown(t, m, "wireguard")
	for what, text := range places {
		for _, key := range [][]byte{random, clamped} {
			if strings.Contains(text, hex.EncodeToString(key)) || bytes.Contains([]byte(text), key) ||
				strings.Contains(text, base64.StdEncoding.EncodeToString(key)[:40]) ||
				strings.Contains(text, strings.Trim(fmt.Sprint([8]byte(key)), "[]")) {
				t.Errorf("%s shows a key", what)
			}
		}
	}
}

// What is asked for is what is used: the kernel's device is never replaced by another one.
func TestChoice(t *testing.T) {
	b := raise(t, "auto")
	who := b.Hosts[0].Kernel.Report().Implementations["encryption"]
	err := wireguard.Encryption{}.Check(map[string]string{"impl": "kernel"})
	want := "wireguard (embedded, golang.zx2c4.com/wireguard"
	if err == nil {
		want = "wireguard (kernel)"
	}
	if !strings.HasPrefix(who, want) {
		t.Errorf("recorded as %q, want %q", who, want)
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Check = %v", err)
	}
	for impl, programmed := range map[string]bool{"auto": true, "embedded": true, "kernel": false} {
		if got := (wireguard.Encryption{}).Programmed(map[string]string{"impl": impl}); got != programmed {
			t.Errorf("impl=%s may have a program carry packets: %t", impl, got)
		}
	}
}
