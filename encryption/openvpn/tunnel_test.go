package openvpn_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/openvpn"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
)

// raise builds a lab of so many hosts.
func raise(t *testing.T, hosts int) *networktest.Bed {
	t.Helper()
	testnet.Program(t, "openvpn", "openvpn")
	testnet.NotInGuest(t, "the process does there what it does on the machine")
	between := carriertest.Choose(t, encryption.Kind{openvpn.Encryption{}}, nil)
	lab, err := network.Compose(networktest.Lab(hosts, 1), between)
	if err != nil {
		t.Fatal(err)
	}
	return encryptiontest.Raise(t, lab)
}

// All hosts of a lab reach each other as soon as it is verified, each pair by processes of its own.
func TestMesh(t *testing.T) {
	const hosts = 4
	began := time.Now()
	b := raise(t, hosts)
	t.Logf("%d hosts stand after %s", hosts, time.Since(began))
	top := b.Lab.Top()
	for i := range hosts {
		if who := b.Hosts[i].Kernel.Report().Implementations["encryption"]; !strings.HasPrefix(who, "openvpn 2.") {
			t.Errorf("host %d: recorded as %q", i+1, who)
		}
		for j := range hosts {
			if i == j {
				continue
			}
			// One datagram, which nobody sends again. The other host says that nobody has its port.
			if err := b.Hosts[i].Do(func() error {
				c, err := net.Dial("udp", net.JoinHostPort(top.Reach[i][j].IPv4.String(), "9"))
				if err != nil {
					return err
				}
				defer c.Close()
				_, err = c.Write([]byte("x"))
				if err == nil {
					err = c.SetReadDeadline(time.Now().Add(10 * time.Second))
				}
				if err == nil {
					_, err = c.Read(make([]byte, 1))
				}
				if !errors.Is(err, syscall.ECONNREFUSED) {
					return fmt.Errorf("host %d does not reach host %d: %w", i+1, j+1, err)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	}
}

// drifted wants Verify on the first host to name what is not as planned.
func drifted(t *testing.T, b *networktest.Bed, want ...string) {
	t.Helper()
	err := b.Hosts[0].Stack.Verify(t.Context(), b.Hosts[0].Kernel)
	if _, drift := errors.AsType[*host.DriftError](err); !drift {
		t.Errorf("Verify = %v, want a drift", err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("Verify = %v, want a drift with %q", err, w)
		}
	}
}

// A process that is killed is noticed with its last lines, its link is gone, and the rest can be undone.
func TestDeath(t *testing.T) {
	b := raise(t, 2)
	before, err := os.ReadDir(filepath.Dir(logs(t, b.Hosts[0].Kernel)))
	if err != nil {
		t.Fatal(err)
	}
	r := b.Hosts[0].Kernel.Running("ovpn2")
	if err := syscall.Kill(r.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it was killed, and is not told to have died")
	}
	drifted(t, b, "ovpn2 died: signal: killed", "Initialization Sequence Completed")
	if err := b.Undo(); err != nil {
		t.Error(err)
	}
	after, err := os.ReadDir(filepath.Dir(logs(t, b.Hosts[0].Kernel)))
	if err != nil || len(after) >= len(before) {
		t.Errorf("undone, it leaves %v of %v: %v", after, before, err)
	}
	if err := errors.Join(b.Apply(t), b.Verify(t)); err != nil {
		t.Errorf("it cannot be built once more: %v", err)
	}
}

// A link of the same name that another process has, and a process that stands still, are noticed.
func TestTampering(t *testing.T) {
	b := raise(t, 2)
	r := b.Hosts[0].Kernel.Running("ovpn2")
	if err := syscall.Kill(r.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	drifted(t, b, "state of ovpn2: want CONNECTED, got ")
	if err := syscall.Kill(r.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(t); err != nil {
		t.Fatalf("when it goes on: %v", err)
	}
	if err := b.Hosts[0].Do(func() error {
		l, err := netlink.LinkByName("ovpn2")
		if err != nil {
			return err
		}
		if err := netlink.LinkDel(l); err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "ovpn2"
		other := &netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TUN}
		if err := netlink.LinkAdd(other); err != nil {
			return err
		}
		for _, f := range other.Fds {
			t.Cleanup(func() { _ = f.Close() })
		}
		return netlink.LinkSetUp(other)
	}); err != nil {
		t.Fatal(err)
	}
	drifted(t, b, "process of link ovpn2: want openvpn, got another one")
	if err := b.Hosts[0].Do(func() error {
		l, err := netlink.LinkByName("ovpn2")
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	}); err != nil {
		t.Fatal(err)
	}
	drifted(t, b, "link ovpn2: want present, got absent")
}

// A host that has the secret of another lab is not a peer: no packet passes, none leaves in plain while there is no
// key, and Verify says so.
func TestStranger(t *testing.T) {
	b := raise(t, 2)
	if err := b.Undo(); err != nil {
		t.Fatal(err)
	}
	b.Hosts[1].Kernel.Entrust(host.NewSecret())
	if err := b.Apply(t); err != nil {
		t.Fatal(err)
	}
	var taps [2]carriertest.Tap
	for i := range taps {
		var err error
		if taps[i], err = carriertest.Listen(b, i); err != nil {
			t.Fatal(err)
		}
		defer taps[i].Close()
	}
	const size = 28
	if err := b.Exchange("ipv4", size); err == nil {
		t.Error("packets pass")
	}
	var frames [2][][]byte
	for i := range taps {
		var err error
		if frames[i], err = taps[i].Passed(); err != nil {
			t.Fatal(err)
		}
		for _, f := range frames[i] {
			if (carriertest.Passage{Size: size}).Readable(f) {
				t.Errorf("a frame of %d bytes from host %d holds the payload", len(f), i+1)
			}
		}
	}
	if len(frames[1]) == 0 {
		t.Error("host 2 does not ask for a handshake")
	}
	// Verify would wait for the handshake if the process were new
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(filepath.Dir(logs(t, b.Hosts[0].Kernel)), "ovpn2/management"), old, old); err != nil {
		t.Fatal(err)
	}
	drifted(t, b, "state of ovpn2: want CONNECTED, got ")
}

// Without the secret of a lab nothing is made, and the error says so.
func TestNoSecret(t *testing.T) {
	b := raise(t, 2)
	if err := b.Undo(); err != nil {
		t.Fatal(err)
	}
	b.Hosts[0].Kernel.Entrust(host.Secret{})
	if err := b.Apply(t); err == nil || !strings.Contains(err.Error(), "was not given the secret of its lab") {
		t.Errorf("Apply = %v", err)
	}
}

// If the program is not there, Check says so before anything is built, and which package has it.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := openvpn.Encryption{}.Check(nil)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "install the package openvpn") {
		t.Errorf("Check = %v", err)
	}
}

// So does it if the program is too old.
func TestTooOld(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for said, want := range map[string]string{
		"OpenVPN 2.5.11 x86_64-pc-linux-gnu": "missing OpenVPN 2.6 (" + dir + "/openvpn is 2.5)",
		"usage: openvpn":                     `says "usage: openvpn\n", not its version`,
		"OpenVPN 2.6.14 x86_64-pc-linux-gnu": "",
		"OpenVPN 3.0_git x86_64":             "",
	} {
		program := fmt.Sprintf("#!/bin/sh\necho '%s'\nexit 1\n", said)
		if err := os.WriteFile(filepath.Join(dir, "openvpn"), []byte(program), 0o700); err != nil {
			t.Fatal(err)
		}
		err := openvpn.Encryption{}.Check(nil)
		if want == "" && err != nil {
			testnet.Skip(t, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: Check = %v, want %q", said, err, want)
		}
	}
}

// A cipher that there is not is answered with those that there are, also in a step.
func TestUnknownCipher(t *testing.T) {
	const want = `invalid value "des" for cipher (valid: aes-256-cbc, aes-256-gcm, aes-128-gcm, chacha20-poly1305)`
	if err := (openvpn.Tunnel{Cipher: "des"}).Apply(t.Context(), nil); err == nil || err.Error() != want {
		t.Errorf("Apply = %v, want %s", err, want)
	}
	if _, err := (openvpn.Encryption{}).Carry(networktest.Lab(2, 1), map[string]string{"cipher": "des"}); err == nil ||
		err.Error() != want {
		t.Errorf("Carry = %v, want %s", err, want)
	}
}

// No key is where others could read it: in a step, in what was kept, in the command line, the environment, the log or
// the files of the process. The process holds it in memory, which is what shows that the test looks for the right one.
func TestKeysAreNotShown(t *testing.T) {
	b := raise(t, 2)
	m := b.Hosts[0]
	var keys [][]byte
	for _, purpose := range []string{
		"openvpn of host 1", "openvpn of host 2", "openvpn, handshakes of hosts 1 and 2, part 1",
		"openvpn, handshakes of hosts 1 and 2, part 8",
	} {
		key, err := m.Kernel.Derive(purpose)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	r := m.Kernel.Running("ovpn2")
	places, found := encryptiontest.Shown(t, m, "ovpn2")
	if !strings.Contains(places[fmt.Sprintf("/proc/%d/cmdline", r.PID())], "openvpn") {
		t.Errorf("the command line is that of another: %q", places)
	}
	if !strings.Contains(places["logs"], "Initialization Sequence Completed") {
		t.Errorf("the log says %q", places["logs"])
	}
	if found != 1 {
		t.Errorf("%d files in the directory of programs, want the log alone", found)
	}
	for what, text := range places {
		for i, key := range keys {
			if shows(t, text, key) {
				t.Errorf("%s shows key %d", what, i)
			}
		}
	}
	if !inMemory(t, r.PID(), keys[0]) {
		t.Error("the process has not the key that is looked for")
	}
}

// shows says whether a text has a key in it, in one of its forms.
func shows(t *testing.T, text string, key []byte) bool {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(key))
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{
		string(key), hex.EncodeToString(key), hex.EncodeToString(key[:16]), base64.StdEncoding.EncodeToString(key)[:40],
		base64.StdEncoding.EncodeToString(der), strings.Trim(fmt.Sprint([8]byte(key)), "[]"),
	} {
		if strings.Contains(text, form) {
			return true
		}
	}
	return false
}

// inMemory says whether the memory of a process holds a key.
func inMemory(t *testing.T, pid int, key []byte) bool {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		if n, _ := fmt.Sscanf(line, "%x-%x rw", &from, &to); n != 2 || to-from > 1<<26 {
			continue
		}
		data := make([]byte, to-from)
		if n, err := mem.ReadAt(data, from); err == nil && bytes.Contains(data[:n], key) {
			return true
		}
	}
	return false
}

// logs is the directory of logs, in that of all programs.
func logs(t *testing.T, k *host.Kernel) string {
	t.Helper()
	dir, err := k.RunDir("log")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
