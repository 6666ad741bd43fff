package cni_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testcni"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/cni"
	"github.com/nettoll/nettoll/network/networktest"
)

// tapped are parameters with the plugin tap of a release that has it, and more.
func tapped(t *testing.T, more ...string) map[string]string {
	t.Helper()
	given := map[string]string{"bin": testcni.Plugins(t, "tap") + ":/opt/cni/bin:/usr/lib/cni"}
	for i := 0; i < len(more); i += 2 {
		given[more[i]] = more[i+1]
	}
	needs(t, params(t, given))
	return given
}

// CI builds the plugin and runs packets, their way and removal on it.
func TestTap(t *testing.T) {
	given := tapped(t, "plugin", "tap")
	if !testnet.IsSlow() {
		networktest.Check(t, cni.Network{}, given, "packets, 1 hosts, 1 pairs", "packets, 2 hosts, 3 pairs", "path, 1 hosts",
			"path, 2 hosts", "undo from data, 2 hosts")
		return
	}
	networktest.Conformance(t, cni.Network{}, given)
}

// Plugins that are chained behind it carry packets, too, and are removed.
func TestTapChain(t *testing.T) {
	testnet.Slow(t, "the plugin by itself (TestTap), and chains behind others (TestConformance)")
	networktest.Check(t, cni.Network{}, tapped(t, "plugin", "tap", "chain", "portmap+firewall+tuning"),
		"packets, 2 hosts, 3 pairs", "undo from data, 2 hosts")
}

// A device with several queues is opened as one.
func TestTapMultiQueue(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.conflist")
	if err := os.WriteFile(file, []byte(`{"cniVersion": "1.0.0", "name": "mine", "plugins": [{"type": "tap",
		"multiQueue": true, "owner": 0, "group": 0, "ipam": {"type": "host-local", "subnet": "10.88.0.0/24"}}]}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	networktest.Check(t, cni.Network{}, tapped(t, "conf", file), "packets, 1 hosts, 3 pairs")
}

// A process carries the packets of this plugin, and of no other.
func TestTapProgrammed(t *testing.T) {
	for _, kind := range []string{"bridge", "tap", "ptp"} {
		if got := (cni.Network{}).Programmed(params(t, map[string]string{"plugin": kind})); got != (kind == "tap") {
			t.Errorf("Programmed of plugin %s is %t", kind, got)
		}
	}
}

// What somebody changes of the process and of its devices is seen.
func TestTapNoticed(t *testing.T) {
	p := params(t, tapped(t, "plugin", "tap"))
	change := func(f func(*link.Handle, link.Link) error) func(*host.Kernel) error {
		return func(k *host.Kernel) error {
			h, err := k.Links("")
			if err != nil {
				return err
			}
			l, err := h.ByName("vsrc0")
			if err != nil {
				return err
			}
			return f(h, l)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*host.Kernel) error
		want   string
	}{
		{"killed", func(k *host.Kernel) error {
			r := k.Running("tap-relay")
			if err := syscall.Kill(r.PID(), syscall.SIGKILL); err != nil {
				return err
			}
			select {
			case <-r.Done():
				return nil
			case <-time.After(10 * time.Second):
				return fmt.Errorf("process %d stays", r.PID())
			}
		}, "process of tap-relay"},
		{"unplugged", change(func(h *link.Handle, l link.Link) error { return h.SetMaster(l.Index, 0) }), "master of vsrc0"},
		{"down", change(func(h *link.Handle, l link.Link) error {
			return h.SetUp(l.Index, false)
		}), "vsrc0: want up, got down"},
		{"MTU", change(func(h *link.Handle, l link.Link) error { return h.SetMTU(l.Index, 1300) }), "mtu of vsrc0"},
		{"MAC", change(func(h *link.Handle, l link.Link) error {
			return h.SetMAC(l.Index, net.HardwareAddr{2, 0, 0, 0, 0, 9})
		}), "mac of vsrc0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := steptest.Kernel(t, testnet.New(t), host.KernelConfig{})
			steptest.Noticed(t, k, plan(t, p), func() error { return c.change(k) }, c.want)
		})
	}
}
