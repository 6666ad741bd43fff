package cni_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testcni"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/cni"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
)

// flannel are the parameters of Flannel with a backend, by programs that were built for tests.
func flannel(t *testing.T, backend string) map[string]string {
	t.Helper()
	given := map[string]string{
		"plugin": "flannel", "backend": backend, "daemon": testcni.Flanneld(t),
		"bin": testcni.Plugins(t, "flannel") + ":/opt/cni/bin:/usr/lib/cni", "etcd": testnet.Program(t, "etcd", "etcd-server"),
	}
	needs(t, params(t, given))
	return given
}

func backends() []string { return []string{"vxlan", "host-gw"} }

// Flannel passes the suite of networks with its own daemon and plugin.
func TestFlannel(t *testing.T) {
	testnet.Slow(t, "Flannel; TestPlan and TestFlannelLacks have what needs no flanneld")
	for _, backend := range backends() {
		networktest.Conformance(t, cni.Network{}, flannel(t, backend))
	}
}

// lab is that of a backend on two hosts, which stands until the end of the test.
func lab(t *testing.T, given map[string]string) *networktest.Bed {
	t.Helper()
	l := networktest.Lab(2, 2)
	l.Params = params(t, given)
	l, err := network.Cross(cni.Network{}, l)
	if err != nil {
		t.Fatal(err)
	}
	return networktest.Stand(t, cni.Network{}, l)
}

// With vxlan flanneld has packets carried by its device, each in 50 bytes more to port 8472, and with host-gw there is no
// such device. The tap of the underlay says so.
func TestFlannelOnTheWire(t *testing.T) {
	testnet.Slow(t, "Flannel on the wire")
	for _, backend := range backends() {
		t.Run(backend, func(t *testing.T) {
			b := lab(t, flannel(t, backend))
			paths, err := b.Paths(cni.Network{})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range b.Hosts { // the rules of flanneld are not taken for what the plugins leave
				if doubts := strings.Join(m.Kernel.Report().Doubts, "; "); strings.Contains(doubts, "chain ip") {
					t.Errorf("doubts: %s", doubts)
				}
			}
			h, err := b.Hosts[0].Kernel.Links("")
			if err != nil {
				t.Fatal(err)
			}
			_, err = h.ByName("flannel.1")
			if has := err == nil; has != (backend == "vxlan") {
				t.Errorf("link flannel.1: %v", err)
			}
			questions := paths.Questions(false)
			questions[0].Tap = &host.Tap{Links: []string{"host1"}, Mark: []byte{0, 1, 2, 3, 4, 5, 6, 7}}
			if _, err := b.Trace(t, questions); err != nil {
				t.Fatal(err)
			}
			payload := b.Lab.MTU - 20 - 8
			if err := b.Exchange("ipv4", payload); err != nil {
				t.Fatal(err)
			}
			traces, err := b.Trace(t, paths.Questions(false))
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"vxlan": "ipv4 UDP to port 8472", "host-gw": "ipv4 UDP to port 20010"}[backend]
			longest := 14 + b.Lab.MTU
			if backend == "vxlan" {
				longest += 50
			}
			found := false
			for _, f := range traces[0].Frames {
				t.Logf("%s: %s %s: %d frames, the longest of %d bytes, marked %d", f.Link, f.Family, f.Wire, f.Count, f.Longest,
					f.Marked)
				switch is := f.Family + " " + f.Wire.String(); {
				case is == want || backend == "host-gw" && f.Protocol == network.UDP:
					found = found || f.Longest == longest && f.Marked > 0
				case f.Family != "" && f.Marked > 0:
					t.Errorf("%d frames with what containers sent are %s, want %s", f.Marked, is, want)
				}
			}
			if !found {
				t.Errorf("no frame of %d bytes with what containers sent is %s", longest, want)
			}
			if b.Lab.MTU != map[string]int{"vxlan": 1390, "host-gw": 1440}[backend] {
				t.Errorf("containers have an MTU of %d bytes on an underlay of 1440", b.Lab.MTU)
			}
		})
	}
}

// What somebody changes of what flanneld has made is seen.
func TestFlannelNoticed(t *testing.T) {
	testnet.Slow(t, "tampering with Flannel")
	route := func(h *link.Handle) error {
		all, err := h.Routes(netip.MustParsePrefix("10.2.0.0/16"))
		if err != nil || len(all) != 1 {
			return errors.Join(err, fmt.Errorf("%d routes, want one", len(all)))
		}
		return h.DeleteRoute(all[0])
	}
	for _, c := range []struct {
		name, backend string
		change        func(*networktest.Machine, *link.Handle) error
		want          string
	}{
		{"route", "vxlan", func(_ *networktest.Machine, h *link.Handle) error { return route(h) }, "route to 10.2.0.0/16"},
		{"MTU", "vxlan", func(_ *networktest.Machine, h *link.Handle) error {
			l, err := h.ByName("flannel.1")
			return errors.Join(err, h.SetMTU(l.Index, 1300))
		}, "mtu of flannel.1: want 1390, got 1300"},
		{"entry", "vxlan", func(_ *networktest.Machine, h *link.Handle) error {
			l, err := h.ByName("flannel.1")
			if err != nil {
				return err
			}
			all, err := h.FDB(l.Index)
			if err != nil || len(all) != 1 {
				return errors.Join(err, fmt.Errorf("%d entries, want one", len(all)))
			}
			return h.DeleteFDBEntry(all[0])
		}, "host behind 10.2.0.0: want 198.18.0.2"},
		{"daemon", "host-gw", func(m *networktest.Machine, _ *link.Handle) error {
			p := m.Kernel.Process("flanneld")
			other, err := os.FindProcess(p.PID)
			if err != nil {
				return err
			}
			done := m.Kernel.Running("flanneld").Done()
			err = other.Kill()
			<-done
			return err
		}, "process of flanneld: want running, got flanneld died"},
		{"etcd", "host-gw", func(m *networktest.Machine, _ *link.Handle) error {
			done := m.Kernel.Running("etcd").Done()
			other, err := os.FindProcess(m.Kernel.Process("etcd").PID)
			if err != nil {
				return err
			}
			err = other.Kill()
			<-done
			return err
		}, "process of etcd: want running, got etcd died"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := lab(t, flannel(t, c.backend))
			m := b.Hosts[0]
			h, err := m.Kernel.Links("")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.change(m, h); err != nil {
				t.Fatal(err)
			}
			err = m.Stack.Verify(t.Context(), m.Kernel)
			if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Verify = %v, want a drift with %q", err, c.want)
			}
		})
	}
}

// A daemon that ends at once is an error that has what it said, and nothing is left.
func TestFlannelFails(t *testing.T) {
	etcd := testnet.Program(t, "etcd", "etcd-server")
	dir := t.TempDir()
	daemon := dir + "/flanneld"
	const script = "#!/bin/sh\n[ \"$1\" = -version ] || { echo no such backend >&2; exit 1; }\n"
	//nolint:gosec // a program
	if err := os.WriteFile(daemon, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	l := networktest.Lab(2, 1)
	l.Params = params(t, map[string]string{"plugin": "flannel", "daemon": daemon, "etcd": etcd})
	l, err := network.Cross(cni.Network{}, l)
	if err != nil {
		t.Fatal(err)
	}
	b, err := networktest.MakeBed(t, cni.Network{}, l)
	if err != nil {
		t.Fatal(err)
	}
	before, err := b.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	err = b.Apply(t)
	if err == nil || !strings.Contains(err.Error(), "flanneld died: exit status 1") ||
		!strings.Contains(err.Error(), "no such backend") {
		t.Errorf("Apply = %v, want that flanneld died, and what it said", err)
	}
	if err := b.Undo(); err != nil {
		t.Error(err)
	}
	after, err := b.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for what, was := range before {
		if after[what] != was {
			t.Errorf("%s was %q and is %q", what, was, after[what])
		}
	}
}

// Check names the program of Flannel that is missing, and the parameter that tells where it is.
func TestFlannelLacks(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"flannel", "bridge", "host-local", "there", "iptables"} {
		//nolint:gosec // a program
		if err := os.WriteFile(dir+"/"+name, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		given               map[string]string
		missing, hint, what string
	}{
		{map[string]string{"bin": "/nowhere", "daemon": dir + "/there", "etcd": dir + "/there"}, `CNI plugin "flannel"`, "github.com/flannel-io/cni-plugin", "/nowhere"},
		{map[string]string{"bin": dir, "daemon": "/nowhere/flanneld"}, `program "/nowhere/flanneld"`, "set daemon to the path", "daemon="},
		{
			map[string]string{"bin": dir, "daemon": dir + "/there", "etcd": "no-etcd"},
			`program "no-etcd"`,
			"install the package etcd-server, or set etcd to the path", "etcd=no-etcd",
		},
	} {
		given := part.Params{"plugin": "flannel"}
		maps.Copy(given, c.given)
		err := cni.Network{}.Check(params(t, given))
		missing, is := errors.AsType[*linux.UnsupportedError](err)
		if !is || missing.Missing != c.missing || !strings.Contains(missing.Hint, c.hint) ||
			!strings.Contains(err.Error(), c.what) {
			t.Errorf("%v: Check = %v, want that %s is missing, and %q", c.given, err, c.missing, c.hint)
		}
	}
}
