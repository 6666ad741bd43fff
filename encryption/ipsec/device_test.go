package ipsec_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/strongswan/govici/vici"
	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/ipsec"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
)

// prepare makes the namespaces of a lab of two hosts.
func prepare(t *testing.T, given map[string]string) *networktest.Bed {
	t.Helper()
	if given["impl"] == "strongswan" {
		testnet.NotInGuest(t, "the process does there what it does on the machine")
	}
	between := carriertest.Choose(t, encryption.Kind{ipsec.Encryption{}}, given)
	lab, err := network.Compose(networktest.Lab(2, 1), between)
	if err != nil {
		t.Fatal(err)
	}
	return encryptiontest.Prepare(t, lab)
}

// raise builds a lab of two hosts.
func raise(t *testing.T, given map[string]string) *networktest.Bed {
	t.Helper()
	b := prepare(t, given)
	testnet.Skip(t, b.Apply(t))
	if err := b.Verify(t); err != nil {
		t.Fatal(err)
	}
	return b
}

func strongswan() map[string]string { return map[string]string{"impl": "strongswan"} }

// ask makes a request to charon of a host.
func ask(t *testing.T, m *networktest.Machine, command string, request map[string]any) error {
	t.Helper()
	dir, err := m.Kernel.RunDir("ipsec")
	if err != nil {
		t.Fatal(err)
	}
	s, err := vici.NewSession(vici.WithAddr("unix", filepath.Join(dir, "vici")))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	message, err := vici.MarshalMessage(request)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.CommandRequest(command, message)
	if err == nil {
		err = answer.Err()
	}
	return err
}

// do makes a request that succeeds.
func do(t *testing.T, m *networktest.Machine, command string, request map[string]any) {
	t.Helper()
	if err := ask(t, m, command, request); err != nil {
		t.Fatal(err)
	}
}

// connection is what charon of a host is told of its peer, with these children instead of its own.
func connection(d ipsec.Device, peer string, children map[string]map[string]any) map[string]any {
	all := map[string]any{}
	for child, more := range children {
		own := map[string]any{
			"reqid": d.Peers[0].Host, "esp_proposals": []string{"aes256gcm16"}, "local_ts": d.Own,
			"remote_ts": d.Peers[0].Ranges, "rekey_time": "0s", "life_time": "0s",
		}
		maps.Copy(own, more)
		all[child] = own
	}
	return map[string]any{peer: map[string]any{
		"version": "2", "local_addrs": []string{d.At}, "remote_addrs": []string{d.Peers[0].At}, "local_port": "4500",
		"remote_port": "4500", "encap": "yes", "mobike": "no", "rekey_time": "0s", "reauth_time": "0s",
		"proposals": []string{"aes256gcm16-prfsha256-ecp256"},
		"local":     map[string]any{"auth": "psk", "id": fmt.Sprint("host", d.Host)},
		"remote":    map[string]any{"auth": "psk", "id": peer}, "children": all,
	}}
}

// drifted wants Verify of host 1 to name what differs.
func drifted(t *testing.T, b *networktest.Bed, want string) {
	t.Helper()
	err := b.Hosts[0].Stack.Verify(t.Context(), b.Hosts[0].Kernel)
	if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), want) {
		t.Errorf("Verify = %v, want a drift with %q", err, want)
	}
}

// device is the step of a host.
func device(t *testing.T, m *networktest.Machine) ipsec.Device {
	t.Helper()
	for _, p := range m.Plans {
		for _, s := range p.Steps {
			if d, ok := s.(ipsec.Device); ok {
				return d
			}
		}
	}
	t.Fatal("no step is the device")
	return ipsec.Device{}
}

// Verify notices what somebody tells charon, and names it. It is as before when charon is told that again.
func TestTamperingStrongSwan(t *testing.T) {
	b := raise(t, strongswan())
	one, two := b.Hosts[0], b.Hosts[1]
	again := func() {
		t.Helper()
		do(t, one, "initiate", map[string]any{"ike": "host2", "child": "esp"})
	}
	do(t, one, "terminate", map[string]any{"ike": "host2", "force": "yes"})
	drifted(t, b, "security association with host2: want present, got absent")
	again()
	do(t, one, "uninstall", map[string]any{"child": "guard", "ike": "host2"})
	drifted(t, b, "policies of host2: want present, got absent")
	do(t, one, "install", map[string]any{"child": "guard", "ike": "host2"})
	do(t, one, "load-shared", map[string]any{"id": "stranger", "type": "IKE", "data": "x", "owners": []string{"stranger"}})
	drifted(t, b, "names of shared keys: want host2, got host2, stranger")
	do(t, one, "unload-shared", map[string]any{"id": "stranger"})
	if err := b.Verify(t); err != nil {
		t.Fatalf("as it was told before: %v", err)
	}
	if err := b.Exchange("ipv4", 28); err != nil {
		t.Error(err)
	}
	// policies of an association besides those that stand before it, and those that let packets pass in plain
	d := device(t, one)
	for _, c := range []struct{ policies, want string }{
		{"yes", "policies of an association, with a route to 10.2.0.0/16 in table 220: want absent, got present"},
		{"no", ""},
	} {
		do(t, one, "load-conn", connection(d, "host2", map[string]map[string]any{"esp": {"policies": c.policies}}))
		do(t, one, "terminate", map[string]any{"ike": "host2", "force": "yes"})
		again()
		if c.want != "" {
			drifted(t, b, c.want)
		} else if err := b.Verify(t); err != nil {
			t.Errorf("as it was told before: %v", err)
		}
	}
	do(t, one, "load-conn", connection(d, "host2", map[string]map[string]any{"plain": {"mode": "pass"}}))
	do(t, one, "install", map[string]any{"child": "plain", "ike": "host2"})
	drifted(t, b, "policies host2/plain: want absent, got present")
	do(t, one, "uninstall", map[string]any{"child": "plain", "ike": "host2"})
	if err := b.Verify(t); err != nil {
		t.Errorf("as it was told before: %v", err)
	}
	// what stands is compared with every field of the step
	for want, change := range map[string]func(*ipsec.Device){
		"cipher of the security association with host2: want AES_GCM_16 128, got AES_GCM_16 256": func(d *ipsec.Device) {
			d.Cipher = "aes-128-gcm"
		},
		"ends of the security association with host2":          func(d *ipsec.Device) { d.Peers[0].At = "198.18.0.9" },
		"own addresses of the security association with host2": func(d *ipsec.Device) { d.Own = d.Own[:2] },
		"addresses of host2 in its policies": func(d *ipsec.Device) {
			d.Peers[0].Ranges = append(d.Peers[0].Ranges, "192.0.2.0/24")
		},
		"policies host2/guard: want absent, got present": func(d *ipsec.Device) { d.Peers = nil },
		"security association host2: want absent":        func(d *ipsec.Device) { d.Peers = nil },
		"want a device by impl kernel, got tuntap":       func(d *ipsec.Device) { d.Impl = "kernel" },
	} {
		d := device(t, one)
		d.Peers = []ipsec.Peer{{Host: 2, At: d.Peers[0].At, Ranges: append([]string(nil), d.Peers[0].Ranges...)}}
		change(&d)
		if err := d.Verify(one.Kernel); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Verify = %v, want %q", err, want)
		}
	}
	// the other end is told, too
	do(t, two, "terminate", map[string]any{"ike": "host1", "force": "yes"})
	if err := b.Verify(t); err == nil {
		t.Error("the associations are gone, and nobody notices")
	}
}

// Verify notices what somebody changes in the kernel.
func TestTamperingKernel(t *testing.T) {
	for want, change := range map[string]func() error{
		"security association 0x20002 to 198.18.0.1: want present, got absent": func() error {
			return eachState(func(s netlink.XfrmState) error {
				if s.Spi != 0x20002 {
					return nil
				}
				return netlink.XfrmStateDel(&s)
			})
		},
		"key of security association 0x10004 to 198.18.0.2: want that of the lab, got another": func() error {
			return eachState(func(s netlink.XfrmState) error {
				if s.Spi != 0x10004 {
					return nil
				}
				if err := netlink.XfrmStateDel(&s); err != nil {
					return err
				}
				s.Aead.Key[7] ^= 1
				return netlink.XfrmStateAdd(&s)
			})
		},
		"cipher of security association 0x10004 to 198.18.0.2: want rfc4106(gcm(aes)), key 288, value 128 bits": func() error {
			return eachState(func(s netlink.XfrmState) error {
				if s.Spi != 0x10004 {
					return nil
				}
				if err := netlink.XfrmStateDel(&s); err != nil {
					return err
				}
				s.Aead.Key = s.Aead.Key[16:]
				return netlink.XfrmStateAdd(&s)
			})
		},
		"security association 0x999999 to 198.18.0.2: want absent, got present": func() error {
			return eachState(func(s netlink.XfrmState) error {
				if s.Spi != 0x10004 {
					return nil
				}
				s.Spi = 0x999999
				return netlink.XfrmStateAdd(&s)
			})
		},
		"policy (dir out) from 0.0.0.0/0 to 10.2.0.0/16: want allow, priority 0, esp tunnel": func() error {
			policies, err := netlink.XfrmPolicyList(netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			for _, p := range policies {
				if p.Dir == netlink.XFRM_DIR_OUT && p.Dst.String() == "10.2.0.0/16" {
					return netlink.XfrmPolicyDel(&p)
				}
			}
			return errors.New("no such policy")
		},
	} {
		t.Run(want, func(t *testing.T) {
			b := raise(t, map[string]string{"impl": "kernel"})
			if err := b.Hosts[0].Do(change); err != nil {
				t.Fatal(err)
			}
			drifted(t, b, want)
		})
	}
}

func eachState(f func(netlink.XfrmState) error) error {
	states, err := netlink.XfrmStateList(netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	for _, s := range states {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

// rules are the rules of routing of a host.
func rules(t *testing.T, m *networktest.Machine) []string {
	t.Helper()
	var list []string
	if err := m.Do(func() error {
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			found, err := netlink.RuleList(family)
			if err != nil {
				return err
			}
			for _, r := range found {
				list = append(list, fmt.Sprintf("%d: table %d", r.Priority, r.Table))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// A process that is killed is noticed with what became of it, its link is gone, and the rest can be undone.
func TestDeath(t *testing.T) {
	b := prepare(t, strongswan())
	before := rules(t, b.Hosts[0])
	testnet.Skip(t, b.Apply(t))
	if err := b.Verify(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, rules(t, b.Hosts[0])); diff != "" {
		t.Errorf("charon has left rules of routing (-before +after):\n%s", diff)
	}
	r := b.Hosts[0].Kernel.Running("ipsec")
	if err := syscall.Kill(r.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it was killed, and is not told to have died")
	}
	drifted(t, b, "ipsec died: signal: killed")
	if err := b.Undo(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(b.Apply(t), b.Verify(t)); err != nil {
		t.Errorf("it cannot be built once more: %v", err)
	}
}

// Without the secret of a lab nothing is made, and the error says so.
func TestNoSecret(t *testing.T) {
	b := prepare(t, map[string]string{"impl": "auto"})
	b.Hosts[0].Kernel.Entrust(host.Secret{})
	if err := b.Apply(t); err == nil || !strings.Contains(err.Error(), "was not given the secret of its lab") {
		t.Errorf("Apply = %v", err)
	}
}

// Nothing goes in plain: neither while the peer is not there yet, nor when the associations or the process are gone.
func TestNeverInPlain(t *testing.T) {
	for _, given := range []map[string]string{strongswan(), {"impl": "kernel", "encap": "none"}} {
		t.Run(given["impl"], func(t *testing.T) {
			b := prepare(t, given)
			apply := func(m *networktest.Machine) {
				t.Helper()
				for _, p := range m.Plans {
					testnet.Skip(t, m.Stack.Apply(t.Context(), m.Kernel, p))
				}
			}
			apply(b.Underlay)
			payload := []byte("nobody on the underlay may read this")
			var sent int
			send := func() {
				t.Helper()
				for _, family := range []string{"ipv4", "ipv6"} {
					source, sink := b.Ends[0][0], b.Ends[1][0]
					err := b.Hosts[0].Kernel.Do(source.Namespace, func() error {
						c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(source.Bind(family), 0)))
						if err != nil {
							return err
						}
						defer c.Close()
						_, err = c.WriteToUDPAddrPort(payload, netip.AddrPortFrom(sink.Public(family), 20009))
						return err
					})
					if err != nil {
						t.Fatal(err)
					}
					sent++
				}
			}
			var taps [2]carriertest.Tap
			var frames [][]byte
			passed := func() {
				t.Helper()
				for _, tap := range taps {
					if tap.File == nil {
						continue
					}
					list, err := tap.Passed()
					if err != nil {
						t.Fatal(err)
					}
					frames = append(frames, list...)
				}
			}
			// host 1 is built, and sends before there is a host 2
			apply(b.Hosts[0])
			for i := range taps {
				var err error
				if taps[i], err = carriertest.Listen(b, i); i == 0 && err != nil {
					t.Fatal(err)
				} else if err == nil {
					defer taps[i].Close()
				}
			}
			send()
			passed()
			apply(b.Hosts[1])
			send() // perhaps still before there is an association
			if err := b.Verify(t); err != nil {
				t.Fatal(err)
			}
			if err := b.Exchange("ipv4", 28); err != nil {
				t.Fatal(err)
			}
			passed()
			if given["impl"] == "strongswan" {
				do(t, b.Hosts[0], "terminate", map[string]any{"ike": "host2", "force": "yes"})
				send()
				if err := b.Exchange("ipv4", 28); err == nil {
					t.Error("packets pass without an association")
				}
				r := b.Hosts[0].Kernel.Running("ipsec")
				if err := syscall.Kill(r.PID(), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				<-r.Done()
			} else if err := b.Hosts[0].Do(func() error {
				return eachState(func(s netlink.XfrmState) error { return netlink.XfrmStateDel(&s) })
			}); err != nil {
				t.Fatal(err)
			}
			send()
			if err := b.Exchange("ipv4", 28); err == nil {
				t.Error("packets pass without anything that encrypts")
			}
			passed()
			for _, f := range frames {
				if bytes.Contains(f, payload[:16]) {
					t.Fatalf("a frame of %d bytes can be read", len(f))
				}
			}
			if len(frames) < 4 || sent < 6 {
				t.Errorf("%d frames were seen and %d packets sent: the test shows nothing", len(frames), sent)
			}
		})
	}
}

// No key is where others could read it: in a step, in what was kept, in the command line, the environment, the log or
// the files of the process, or in what a drift says. What is looked for is the key without which nobody is believed.
func TestKeysAreNotShown(t *testing.T) {
	b := raise(t, strongswan())
	m := b.Hosts[0]
	key, err := m.Kernel.Derive("ipsec ike of hosts 1 and 2")
	if err != nil {
		t.Fatal(err)
	}
	// as a control: with another key there is no association, and with this one there is
	with := func(key string) error {
		do(t, m, "load-shared", map[string]any{
			"id": "host2", "type": "IKE", "data": key, "owners": []string{"host1", "host2"},
		})
		_ = ask(t, m, "terminate", map[string]any{"ike": "host2", "force": "yes"})
		return ask(t, m, "initiate", map[string]any{"ike": "host2", "child": "esp", "timeout": "3000"})
	}
	if err := with("another"); err == nil {
		t.Fatal("the peer believes somebody with another key")
	}
	drift := b.Verify(t)
	if err := with(string(key)); err != nil {
		t.Fatalf("the key that is looked for is not the one: %v", err)
	}
	places, _ := encryptiontest.Shown(t, m, "ipsec")
	places["drift"] = fmt.Sprint(drift)
	if len(places) < 7 {
		t.Errorf("only %d places were looked at", len(places))
	}
	for what, text := range places {
		if strings.Contains(strings.ToLower(text), hex.EncodeToString(key)) || strings.Contains(text, string(key)) ||
			strings.Contains(text, base64.StdEncoding.EncodeToString(key)[:40]) ||
			strings.Contains(text, strings.Trim(fmt.Sprint([8]byte(key)), "[]")) {
			t.Errorf("%s shows a key", what)
		}
	}
}

// What is asked for is what is used: the kernel is never replaced by another one.
func TestChoice(t *testing.T) {
	b := raise(t, map[string]string{"impl": "auto"})
	who := b.Hosts[0].Kernel.Report().Implementations["encryption"]
	err := ipsec.Encryption{}.Check(map[string]string{"impl": "kernel", "encap": "udp", "cipher": "aes-256-gcm"})
	want := "ipsec (strongSwan "
	if err == nil {
		want = "ipsec (kernel)"
	}
	if !strings.HasPrefix(who, want) {
		t.Errorf("recorded as %q, want %q", who, want)
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Check = %v", err)
	}
	for impl, programmed := range map[string]bool{"auto": true, "strongswan": true, "kernel": false} {
		if got := (ipsec.Encryption{}).Programmed(map[string]string{"impl": impl, "encap": "udp"}); got != programmed {
			t.Errorf("impl=%s may have a program carry packets: %t", impl, got)
		}
	}
}
