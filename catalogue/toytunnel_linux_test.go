package catalogue_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/cli"
	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
	"github.com/nettoll/nettoll/tunnel"
)

// toyTunnel is a tunnel that only these tests know: a VXLAN between two hosts.
type toyTunnel struct{}

func (toyTunnel) Describe() part.Description {
	return part.Description{
		Name: "hose", Summary: "a VXLAN between two hosts", Implementation: "kernel",
		Params: part.List{{Name: "id", Default: "7", Values: []string{"7", "8"}, Summary: "identifier of the network"}},
	}
}

func (toyTunnel) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{hose{}.Kind(): func() host.Step { return new(hose) }}
}

func (toyTunnel) Check(part.Params) error { return link.CheckKind("vxlan", "none") }

const hoseLink = "hose0"

// Carry puts a device on each host, and tells it where the other is.
func (toyTunnel) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	below, top := lab.Top(), lab.Above("hose", 2, "ipv4", hoseLink, network.Overhead{
		Bytes: 50, Source: "20 IPv4, 8 UDP, 8 VXLAN, 14 Ethernet (RFC 7348, section 5)",
	})
	top.Wire = []network.Protocol{{Name: "VXLAN", Number: network.UDP, Port: 4789}}
	for i, h := range lab.Hosts {
		step := hose{
			Name: hoseLink, ID: p["id"], MTU: top.MTU, MAC: top.Reach[i][i].MAC,
			Other: below.Reach[i][len(lab.Hosts)-1-i].IPv4.String(),
		}
		v4, v6 := network.SpanAddr(len(lab.Spans), h.Index)
		top.Steps[i] = []host.Step{step, host.Link{
			Name: hoseLink, MTU: top.MTU, Addresses: []string{v4.String(), v6.String()}, Up: true,
		}}
	}
	return top, nil
}

// hose makes a VXLAN device that sends everything to one other host.
type hose struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	MAC   string `json:"mac"`
	MTU   int    `json:"mtu"`
	Other string `json:"other"`
}

func (hose) Kind() string { return "hose" }

func (h hose) String() string {
	return fmt.Sprintf("hose %s, mac %s, mtu %d, id %s, to %s", h.Name, h.MAC, h.MTU, h.ID, h.Other)
}

func (h hose) Apply(_ context.Context, k *host.Kernel) error {
	mac, err := net.ParseMAC(h.MAC)
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(h.ID)
	if err != nil {
		return err
	}
	return k.Do("", func() error {
		return netlink.LinkAdd(&netlink.Vxlan{
			LinkAttrs: netlink.LinkAttrs{Name: h.Name, MTU: h.MTU, HardwareAddr: mac}, VxlanId: id, Port: 4789,
			Group: net.ParseIP(h.Other),
		})
	})
}

func (h hose) Remove(_ context.Context, k *host.Kernel) error {
	return k.Do("", func() error {
		d, err := netlink.LinkByName(h.Name)
		if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone {
			return nil
		} else if err != nil {
			return err
		}
		return netlink.LinkDel(d)
	})
}

func (h hose) Verify(k *host.Kernel) error {
	return k.Do("", func() error {
		got := "absent"
		if d, err := netlink.LinkByName(h.Name); err == nil {
			if v, ok := d.(*netlink.Vxlan); ok {
				got = fmt.Sprintf("id %d, mac %s", v.VxlanId, v.HardwareAddr)
			}
		}
		if want := fmt.Sprintf("id %s, mac %s", h.ID, h.MAC); got != want {
			return &host.DriftError{Step: h.String(), Drifts: []linux.Difference{{What: h.Name, Want: want, Got: got}}}
		}
		return nil
	})
}

// withHose is the catalogue with the tunnel: one line.
func withHose() catalogue.Catalogue {
	c := catalogue.New()
	for i, kind := range c.Kinds {
		if _, ok := kind.(tunnel.Kind); ok {
			c.Kinds[i] = tunnel.Kind{toyTunnel{}}
		}
	}
	return c
}

// The suite of encryptions sees that a tunnel encrypts nothing, and that it delivers what was forged.
func TestTunnelIsNoEncryption(t *testing.T) {
	between := carriertest.Choose(t, encryption.Kind{toyTunnel{}}, nil)
	outer := encryptiontest.Outer{Protocol: 17, Port: 4789}
	err := carriertest.OnWire(t, bridge.Network{}, between, outer.Hidden)
	if errors.Is(err, errors.ErrUnsupported) {
		testnet.Skip(t, err)
	}
	if err == nil || !strings.Contains(err.Error(), "holds the payload") {
		t.Errorf("on the wire: %v, want a frame that holds the payload", err)
	}
	_, results, err := encryptiontest.Attacked(t, bridge.Network{}, between, wire.All()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if want := attack.Open; r.Attack != wire.Weaker && r.Verdict != want {
			t.Errorf("%s is %s (%+v), want %s", r.Attack, r.Verdict, r, want)
		}
	}
}

// A new tunnel is a folder and a line: files, flags, ids, plans, runs, exports and comparisons know it.
func TestToyTunnel(t *testing.T) {
	testnet.Root(t)
	testnet.Skip(t, (toyTunnel{}).Check(nil))
	c := withHose()
	dir := t.TempDir()
	nettoll := func(want int, args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		if code := cli.RunWith(t.Context(), c, "", cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs},
			args); code != want {
			t.Fatalf("nettoll %q: exit status %d, want %d\n%s%s", args, code, want, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	contains := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in:\n%s", w, text)
			}
		}
	}
	contains(nettoll(0, "list", "tunnel"), "tunnel  hose  a VXLAN between two hosts", "id=7")
	file := filepath.Join(dir, "hose.yaml")
	if err := os.WriteFile(file, []byte("factors: {network: [bridge, macvlan], tunnel: [none, hose]}\nworkloads: [udp-rr,"+
		" tcp-stream]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(nettoll(0, "plan", "--hosts", file), "bridge+hose/cross-host/1",
		"tunnel hose carries packets between hosts, but the lab has only one host",
		"tunnel hose carries packets that hosts route, but the containers of network macvlan are on the underlay themselves",
		"hose hose0, mac ", "link hose0 with 198.19.1.1/24, fd00:198:19:1::1/64, mtu 1450, up",
		"route to 10.2.0.0/16 via 198.19.1.2 through hose0", "peer eth0 in src0 with 10.1.1.0/16, fd00:10:1::1:0/64",
		"bridge+hose: containers on different hosts have an MTU of 1450 (underlay 1500, hose −50)")
	contains(nettoll(2, "plan", "--mtu", "1300", file), "bridge+hose: the layers between hosts leave containers an MTU "+
		"of 1250 bytes: 1300 (underlay) − 50 (hose) = 1250; IPv6 needs 1280 (hint: set underlay.mtu to 1330 or more)")
	for _, run := range []string{"old", "new"} {
		nettoll(0, "run", file, "--set", "factors.network=bridge", "--placement", "cross-host", "--time", "2s", "-o",
			filepath.Join(dir, run))
	}
	contains(nettoll(0, "report", filepath.Join(dir, "new"), "--format", "csv"),
		"cell,network,filter,tunnel,encryption,runtime,placement,", "bridge+hose/cross-host/1/",
		",bridge,none,hose,none,netns,cross-host,")
	contains(nettoll(0, "report", filepath.Join(dir, "new"), "--format", "html"), "<th scope=\"col\">tunnel</th>", "hose")
	contains(nettoll(0, "compare", filepath.Join(dir, "old"), filepath.Join(dir, "new"), "--format", "csv"),
		"cell,network,filter,tunnel,", "bridge+hose/cross-host/1/")
}
