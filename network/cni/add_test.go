package cni_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/iptables"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/cni"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
)

// params are those of the network with these given.
func params(t *testing.T, given map[string]string) part.Params {
	t.Helper()
	p, err := cni.Network{}.Describe().Params.Resolve("network cni", given)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// plan is that of a host with one pair, with the namespaces of its containers.
func plan(t *testing.T, p part.Params) host.Plan {
	t.Helper()
	lab := networktest.Lab(1, 1)
	lab.Params = p
	plans, _, err := network.Join(cni.Network{}, lab)
	if err != nil {
		t.Fatal(err)
	}
	return host.Plan{Steps: append([]host.Step{host.Namespace{Name: "src0"}, host.Namespace{Name: "snk0"}},
		plans[0].Steps...)}
}

func TestPlan(t *testing.T) {
	for name, given := range map[string]map[string]string{
		"bridge": {"chain": "bandwidth"}, "ptp": {"plugin": "ptp", "chain": "portmap+firewall+tuning"},
		"flannel-vxlan": {"plugin": "flannel"}, "flannel-host-gw": {"plugin": "flannel", "backend": "host-gw"},
		"vlan": {"plugin": "vlan"}, "ipvlan": {"plugin": "ipvlan"}, "host-device": {"plugin": "host-device"}, "tap": {"plugin": "tap"},
	} {
		t.Run(name, func(t *testing.T) {
			lab := networktest.Lab(2, 1)
			lab.Params = params(t, given)
			lab, err := network.Cross(cni.Network{}, lab)
			if err != nil {
				t.Fatal(err)
			}
			plans, _, err := network.Join(cni.Network{}, lab)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "plan-"+name, plans[0].String())
		})
	}
}

// What somebody changes is seen, by CHECK or by nettoll itself.
func TestNoticed(t *testing.T) {
	p := params(t, map[string]string{"chain": "bandwidth"})
	needs(t, p)
	for _, c := range []struct {
		name, ns, link string
		change         func(*link.Handle, link.Link) error
		want           string
	}{
		{"down", "src0", "eth0", func(h *link.Handle, l link.Link) error { return h.SetUp(l.Index, false) }, "eth0: want up, got down"},
		{"gone", "src0", "eth0", func(h *link.Handle, l link.Link) error { return h.Delete(l.Index) }, "link eth0"},
		{"MTU", "", "vsrc0", func(h *link.Handle, l link.Link) error { return h.SetMTU(l.Index, 1300) }, "mtu of vsrc0"},
		{"bridge down", "", "br0", func(h *link.Handle, l link.Link) error { return h.SetUp(l.Index, false) }, "br0: want up, got down"},
		{"gateway", "", "br0", func(h *link.Handle, l link.Link) error {
			return h.DeleteAddress(l.Index, netip.MustParsePrefix("10.1.0.1/16"))
		}, "address 10.1.0.1/16 of br0"},
		{"default route", "src0", "eth0", func(h *link.Handle, _ link.Link) error {
			all, err := h.Routes(netip.MustParsePrefix("0.0.0.0/0"))
			for _, r := range all {
				err = errors.Join(err, h.DeleteRoute(r))
			}
			return err
		}, "CHECK of CNI"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := steptest.Kernel(t, testnet.New(t), host.KernelConfig{})
			steptest.Noticed(t, k, plan(t, p), func() error {
				h, err := k.Links(c.ns)
				if err != nil {
					return err
				}
				l, err := h.ByName(c.link)
				if err != nil {
					return err
				}
				return c.change(h, l)
			}, c.want)
		})
	}
}

// legacy is the variant of iptables that neither nftables nor the other variant sees.
const legacy = "legacy"

// useLegacy has plugins find legacy iptables, as on a machine that prefers it.
func useLegacy(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"iptables", "ip6tables"} {
		for _, does := range []string{"", "-save", "-restore"} {
			path, err := exec.LookPath(name + "-legacy" + does)
			if err != nil {
				testnet.Skip(t, iptables.Check(iptables.Legacy))
				t.Fatal(err)
			}
			if err := os.Symlink(path, filepath.Join(dir, name+does)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// legacyChains returns the chains of plugins in legacy iptables.
func legacyChains(t *testing.T, k *host.Kernel) (list []string) {
	t.Helper()
	if err := k.Do("", func() error {
		tables, err := iptables.Contents()
		for table, chains := range tables {
			for chain := range chains {
				if strings.HasPrefix(chain, "CNI") {
					list = append(list, table+" "+chain)
				}
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// What plugins leave behind is reported, once.
func TestLeft(t *testing.T) {
	for _, c := range []struct {
		name  string
		given map[string]string
		want  []string
	}{
		{"bridge", nil, []string{
			"link br0 (bridge)", "address 10.1.0.1/16 of br0", "net.ipv4.ip_forward (0 before)",
			"file ipam/nettoll/last_reserved_ip.0",
		}},
		{"rules", map[string]string{"plugin": "ptp", "chain": "portmap+firewall"}, []string{
			"chain ip nat CNI-HOSTPORT-DNAT", "chain ip filter CNI-FORWARD",
		}},
		{legacy, map[string]string{"plugin": "ptp", "chain": "portmap+firewall"}, []string{
			"chain legacy ip nat CNI-HOSTPORT-DNAT", "chain legacy ip filter CNI-FORWARD",
			"chain legacy ip6 filter CNI-FORWARD",
		}},
		{"device", map[string]string{"plugin": "host-device"}, []string{"state of link psrc0 (up=true before)"}},
	} {
		p := params(t, c.given)
		t.Run(c.name, func(t *testing.T) {
			needs(t, p)
			if c.name == legacy {
				useLegacy(t)
			}
			k := steptest.Kernel(t, testnet.New(t), host.KernelConfig{})
			var s host.Stack
			testnet.Skip(t, s.Apply(t.Context(), k, plan(t, p)))
			defer func() {
				if err := s.Undo(context.Background(), k); err != nil {
					t.Error(err)
				}
				if chains := legacyChains(t, k); len(chains) > 0 {
					t.Errorf("chains %q are left in legacy iptables", chains)
				}
			}()
			if chains := legacyChains(t, k); (len(chains) > 0) != (c.name == legacy) {
				t.Errorf("while the network stands, legacy iptables has the plugins' chains %q", chains)
			}
			var left []string
			for _, d := range k.Report().Doubts {
				if strings.HasPrefix(d, "after DEL of CNI the plugins have left on the host: ") {
					left = append(left, d)
				}
			}
			if len(left) != 1 {
				t.Fatalf("doubts: %q, want one of what was left", k.Report().Doubts)
			}
			for _, want := range c.want {
				if !strings.Contains(left[0], want) {
					t.Errorf("%q is missing in %q", want, left[0])
				}
			}
		})
	}
}

// folders puts plugins that this program plays before those of the machine, and returns both folders.
func folders(t *testing.T, p part.Params, plugins map[string]string) part.Params {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, env := range plugins {
		script := fmt.Sprintf("#!/bin/sh\nexec env %s %s\n", env, self)
		//nolint:gosec // a program
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p = maps.Clone(p)
	p["bin"] = dir + ":" + p["bin"]
	return p
}

// An address that is handed out twice, and another one than the plan's, are errors that say so, and nothing is left.
func TestAddresses(t *testing.T) {
	p := params(t, nil)
	needs(t, p)
	const gateways = `"gateway":"10.1.0.1"},{"address":"fd00:10:1::%s/64","gateway":"fd00:10:1::1"}]`
	for _, c := range []struct{ name, ips, want string }{
		{
			"twice", `[{"address":"10.1.1.0/16",` + fmt.Sprintf(gateways, "1:0"),
			"ADD of CNI hands out address 10.1.1.0/16 twice: to src0 and to snk0",
		}, {
			"another", `[{"address":"10.1.7.7/16",` + fmt.Sprintf(gateways, "7:7"),
			"ADD of CNI gives src0 10.1.7.7/16 and fd00:10:1::7:7/64, but its IPAM was asked for 10.1.1.0/16 and " +
				"fd00:10:1::1:0/64",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := steptest.Kernel(t, testnet.New(t), host.KernelConfig{})
			var s host.Stack
			err := s.Apply(t.Context(), k, plan(t, folders(t, p, map[string]string{
				"host-local": fake + "=ipam 'NETTOLL_TEST_CNI_IPS=" + c.ips + "'",
			})))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Apply = %v\nwant %q", err, c.want)
			}
			h, err := k.Links("")
			if err != nil {
				t.Fatal(err)
			}
			if links, err := h.List(); err != nil || len(links) != 1 {
				t.Errorf("links after the error: %v, %v, want lo alone", links, err)
			}
		})
	}
}

// A plugin whose CHECK fails right after ADD does not fail the lab, and the report says so; what nettoll compares itself
// is compared all the same.
func TestBrokenCheck(t *testing.T) {
	p := params(t, map[string]string{"chain": "tuning"})
	needs(t, p)
	p = folders(t, p, map[string]string{"tuning": fake + "=check"})
	k := steptest.Kernel(t, testnet.New(t), host.KernelConfig{})
	steptest.Noticed(t, k, plan(t, p), func() error {
		found := 0
		for _, d := range k.Report().Doubts {
			if strings.HasPrefix(d, `CHECK of the CNI plugin "tuning" fails right after ADD`) {
				found++
			}
		}
		if found != 1 {
			return fmt.Errorf("doubts: %q, want one of CHECK", k.Report().Doubts)
		}
		h, err := k.Links("snk0")
		if err != nil {
			return err
		}
		l, err := h.ByName("eth0")
		if err != nil {
			return err
		}
		return h.SetUp(l.Index, false)
	}, "eth0: want up, got down")
}

// Check names the plugin that is missing, and where it was looked for.
func TestMissing(t *testing.T) {
	p := params(t, map[string]string{"bin": "/nowhere"})
	err := cni.Network{}.Check(p)
	missing, is := errors.AsType[*linux.UnsupportedError](err)
	if !is || missing.Missing != `CNI plugin "bridge"` || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("Check = %v, want that the plugin bridge is not in /nowhere", err)
	}
}

// Wrong values of parameters are refused with what is valid.
func TestParams(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"plugin", "taps", `invalid value "taps"`},
		{"backend", "udp", `invalid value "udp" (valid: vxlan, host-gw)`},
		{"daemon", "bin/flanneld", `invalid program "bin/flanneld" (valid: an absolute path, or a name in PATH)`},
		{"etcd", "", `invalid program ""`},
		{"plugin", "portmap", "it stands behind another plugin: chain=portmap"},
		{"chain", "portmap+sbr", `invalid plugin "sbr" (valid: portmap, firewall, bandwidth, tuning`},
		{"chain", "tuning+tuning", `plugin "tuning" is given twice`},
		{"conf", "/nowhere/mine.conflist", "open /nowhere/mine.conflist: no such file"},
		{"bin", "bin", `invalid folder "bin" of plugins (valid: absolute paths`},
	} {
		_, err := cni.Network{}.Describe().Params.Resolve("network cni", map[string]string{c.name: c.value})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.name, c.value, err, c.want)
		}
	}
}
