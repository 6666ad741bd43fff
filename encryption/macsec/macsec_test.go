package macsec_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/macsec"
	"github.com/nettoll/nettoll/host"
	driver "github.com/nettoll/nettoll/internal/linux/macsec"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/tunnel"
	"github.com/nettoll/nettoll/tunnel/gre"
	"github.com/nettoll/nettoll/tunnel/vxlan"
)

func kind() encryption.Kind { return encryption.Kind{macsec.Encryption{}} }

// outer is how its frames are recognized. By its default it takes some of them twice.
func outer() encryptiontest.Outer { return encryptiontest.Outer{EtherType: 0x88e5} }

func TestConformance(t *testing.T) {
	encryptiontest.Conformance(t, macsec.Encryption{}, nil, outer(), bridge.Network{}, routed.Network{}, ebpf.Network{})
}

// Each cipher adds what it says, hides what containers send, and refuses what was changed or never encrypted.
func TestWire(t *testing.T) {
	for _, cipher := range driver.Names()[1:] {
		between := carriertest.Choose(t, kind(), map[string]string{"cipher": cipher})
		t.Run(between[0].ID(), func(t *testing.T) {
			err := carriertest.OnWire(t, bridge.Network{}, between, outer().Hidden)
			if err == nil {
				err = encryptiontest.Forged(t, bridge.Network{}, between)
			}
			testnet.Skip(t, err)
		})
	}
}

// Without a window no frame is taken twice. With one it is, as the documentation says.
func TestWindow(t *testing.T) {
	for window, want := range map[string]attack.Verdict{"0": attack.Withstood, "1024": attack.Open} {
		between := carriertest.Choose(t, kind(), map[string]string{"window": window})
		_, results, err := encryptiontest.Attacked(t, bridge.Network{}, between, wire.Replay)
		testnet.Skip(t, err)
		if got := results[0].Verdict; got != want {
			t.Errorf("window=%s: a frame once more is %s (%+v), want %s", window, got, results[0], want)
		}
	}
}

// Tunnels stand on it as on the underlay, those by eBPF, too.
func TestTunnels(t *testing.T) {
	for _, tt := range []struct {
		one    tunnel.Tunnel
		params map[string]string
	}{{vxlan.Tunnel{}, nil}, {gre.Tunnel{}, map[string]string{"impl": "ebpf"}}} {
		upper, err := stack.Kinds{tunnel.Kind{tt.one}}.Choose("tunnel", tt.one.Describe().Name, tt.params)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(upper.ID(), func(t *testing.T) {
			between := append(stack.Stack{upper}, carriertest.Choose(t, kind(), nil)...)
			networktest.CheckCarried(t, bridge.Network{}, between, "packets, 2 hosts, 1 pairs", "path, 2 hosts")
			testnet.Skip(t, carriertest.OnWire(t, bridge.Network{}, between, func(p carriertest.Passage) error {
				p.Span.Outer = "" // of the frames on the underlay
				return outer().Hidden(p)
			}))
		})
	}
}

// compose is a lab of two hosts.
func compose(t *testing.T, given map[string]string) network.Lab {
	t.Helper()
	lab, err := network.Compose(networktest.Lab(2, 1), carriertest.Choose(t, kind(), given))
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// device is the step of host 1.
func device(t *testing.T, lab network.Lab) macsec.Device {
	t.Helper()
	d, ok := lab.Top().Steps[0][0].(macsec.Device)
	if !ok {
		t.Fatalf("%T is no device", lab.Top().Steps[0][0])
	}
	return d
}

// Verify notices every setting that is another, and every key that has another name. What stands is compared with every
// field of the step.
func TestTampering(t *testing.T) {
	lab := compose(t, nil)
	b := encryptiontest.Raise(t, lab)
	k := b.Hosts[0].Kernel
	for want, change := range map[string]func(*macsec.Device){
		"cipher of macsec0: want gcm-aes-256, got gcm-aes-128": func(d *macsec.Device) { d.Cipher = "gcm-aes-256" },
		"window of macsec0: want 9, got 1024":                  func(d *macsec.Device) { d.Window = 9 },
		"associations to send of macsec0: want 0 by key":       func(d *macsec.Device) { d.Own.Host = 3 },
		"mac of macsec0":                       func(d *macsec.Device) { d.Own.MAC = "02:00:00:00:00:09" },
		"identifier of macsec0":                func(d *macsec.Device) { d.Own.MAC = "02:00:00:00:00:09" },
		"of macsec0: want absent, got present": func(d *macsec.Device) { d.Peers = nil },
		"of macsec0: want present, got absent": func(d *macsec.Device) {
			d.Peers = append(d.Peers, macsec.Channel{Host: 3, MAC: "02:00:00:00:00:09"})
		},
		"associations of channel":            func(d *macsec.Device) { d.Peers[0].Host = 3 },
		"link below macsec0":                 func(d *macsec.Device) { d.Below = "lo" },
		"link macsec9: want present":         func(d *macsec.Device) { d.Name = "macsec9" },
		"type of up0: want macsec, got veth": func(d *macsec.Device) { d.Name = "up0" },
	} {
		d := device(t, lab)
		d.Peers = append([]macsec.Channel(nil), d.Peers...)
		change(&d)
		err := d.Verify(k)
		if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("Verify = %v, want a drift with %q", err, want)
		}
	}
	if err := b.Verify(t); err != nil {
		t.Fatal(err)
	}
	// the device is made anew with another key
	if err := k.Do("", func() error {
		l, err := netlink.LinkByName("macsec0")
		if err != nil {
			return err
		}
		if err := netlink.LinkDel(l); err != nil {
			return err
		}
		key, err := driver.NewKey(make([]byte, 16), make([]byte, driver.IDLength), make([]byte, driver.SaltLength))
		if err != nil {
			return err
		}
		_, err = driver.Add("macsec0", driver.Config{
			Below: l.Attrs().ParentIndex, Cipher: driver.Ciphers()[0],
			Own: driver.Channel{Host: 1, MAC: l.Attrs().HardwareAddr, Key: key},
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	err := b.Verify(t)
	for _, want := range []string{"associations to send of macsec0", "of macsec0: want present, got absent"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Verify = %v, want %q", err, want)
		}
	}
}

// No frame goes to the underlay in plain: neither when the peer has no key, nor when the device is gone.
func TestNeverInPlain(t *testing.T) {
	b := encryptiontest.Raise(t, compose(t, nil))
	tap, err := carriertest.Listen(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	payload := []byte("nobody on the underlay may read this")
	send := func() {
		t.Helper()
		for _, family := range []string{"ipv4", "ipv6"} {
			source, sink := b.Ends[0][0], b.Ends[1][0]
			if err := b.Hosts[0].Kernel.Do(source.Namespace, func() error {
				c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(source.Bind(family), 0)))
				if err != nil {
					return err
				}
				defer c.Close()
				_, err = c.WriteToUDPAddrPort(payload, netip.AddrPortFrom(sink.Public(family), 20009))
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	send()
	remove := func(m *networktest.Machine) {
		t.Helper()
		if err := m.Do(func() error {
			l, err := netlink.LinkByName("macsec0")
			if err != nil {
				return err
			}
			return netlink.LinkDel(l)
		}); err != nil {
			t.Fatal(err)
		}
	}
	remove(b.Hosts[1])
	send()
	remove(b.Hosts[0])
	send()
	time.Sleep(50 * time.Millisecond)
	frames, err := tap.Passed()
	if err != nil {
		t.Fatal(err)
	}
	protected := 0
	for _, f := range frames {
		if strings.Contains(string(f), string(payload)) {
			t.Fatalf("a frame of %d bytes can be read", len(f))
		}
		if host.WireOf(f).Protocol == driver.EtherType {
			protected++
		}
	}
	if protected < 4 {
		t.Errorf("of %d frames %d are protected, and 4 were sent: the test shows nothing", len(frames), protected)
	}
}

// No key is in a step, in a plan, in what was kept, or in what a drift says.
func TestKeysAreNotShown(t *testing.T) {
	lab := compose(t, nil)
	b := encryptiontest.Raise(t, lab)
	k := b.Hosts[0].Kernel
	key, err := k.Derive("macsec key of host 1")
	if err != nil {
		t.Fatal(err)
	}
	d := device(t, lab)
	d.Own.Host = 2
	text := fmt.Sprintf("%v %+v %v %+v %v", d.Verify(k), b.Hosts[0].Plans, d, b.Hosts[0].Stack, k.Report())
	if strings.Contains(text, hex.EncodeToString(key[:8])) || strings.Contains(text, string(key[:8])) ||
		strings.Contains(text, strings.Trim(fmt.Sprint([8]byte(key)), "[]")) {
		t.Error("a key is shown")
	}
	b.Hosts[1].Kernel.Entrust(host.Secret{})
	if err := b.Hosts[1].Stack.Verify(t.Context(), b.Hosts[1].Kernel); err == nil ||
		!strings.Contains(err.Error(), "was not given the secret of its lab") {
		t.Errorf("without the secret of the lab Verify says %v", err)
	}
}

// What it says of itself is what stands in IEEE 802.1AE, and it stands on nothing but frames.
func TestSpan(t *testing.T) {
	lab := networktest.Lab(2, 1)
	lab.MTU = 1500
	lab, err := network.Compose(lab, carriertest.Choose(t, kind(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if top := lab.Top(); top.MTU != 1468 || top.Overhead.On(100, top.MTU) != 132 || !top.Protected {
		t.Errorf("MTU %d, 100 bytes become %d, protected %t; want 1468, 132, true", top.MTU, top.Overhead.On(100, top.MTU),
			top.Protected)
	}
	text := network.NewEvidence(lab, []string{"host1"}).Text()
	if want := "packets between hosts are MACsec (EtherType 0x88e5), by GCM-AES-128, 32 bytes longer at full size"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	lab.Spans = append(lab.Spans, network.Span{Name: "ipip", Layer: 3, MTU: 1400, Reach: lab.Top().Reach})
	_, err = macsec.Encryption{}.Carry(lab, map[string]string{"cipher": "gcm-aes-128", "window": "0"})
	if err == nil || !strings.Contains(err.Error(), "macsec protects Ethernet frames, but ipip carries IP packets") {
		t.Errorf("on a span of IP packets it says %v", err)
	}
	lab = networktest.Lab(2, 1)
	lab.Underlay.Hops = 1
	_, err = network.Compose(lab, carriertest.Choose(t, kind(), nil))
	if err == nil || !strings.Contains(err.Error(), "which end at a router of the underlay (hint: underlay.hops=0)") {
		t.Errorf("on an underlay with a router it says %v", err)
	}
}

// Values that do not exist are refused with those that do, and so is a kernel without MACsec.
func TestRefused(t *testing.T) {
	for want, given := range map[string]map[string]string{
		`invalid cipher "rot13" (valid: gcm-aes-128, gcm-aes-256, gcm-aes-xpn-128, gcm-aes-xpn-256)`: {
			"cipher": "rot13", "window": "0",
		},
		"invalid window 1073741824 (valid with cipher gcm-aes-xpn-128: 0 to 1073741823)": {
			"cipher": "gcm-aes-xpn-128", "window": "1073741824",
		},
	} {
		if err := (macsec.Encryption{}).Check(given); err == nil || err.Error() != want {
			t.Errorf("Check(%v) = %v, want %q", given, err, want)
		}
	}
	for window, valid := range map[string]bool{"0": true, "128": true, "4294967295": true, "-1": false, "4294967296": false} {
		_, err := macsec.Encryption{}.Describe().Params.Resolve("macsec", map[string]string{"window": window})
		if (err == nil) != valid {
			t.Errorf("window=%s: %v", window, err)
		}
	}
	err := macsec.Encryption{}.Check(map[string]string{"cipher": "gcm-aes-128", "window": "0"})
	if err != nil && (!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "CONFIG_MACSEC")) {
		t.Errorf("Check = %v, want what is missing, and the option of the kernel", err)
	}
}
