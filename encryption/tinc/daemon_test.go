package tinc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/tinc"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
)

// compose returns a lab with as many pairs as hosts.
func compose(t *testing.T, hosts int) network.Lab {
	t.Helper()
	lab, err := network.Compose(networktest.Lab(hosts, hosts),
		carriertest.Choose(t, encryption.Kind{tinc.Encryption{}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// raise builds a lab.
func raise(t *testing.T, lab network.Lab) *networktest.Bed {
	t.Helper()
	testnet.Skip(t, tinc.Encryption{}.Check(nil))
	return encryptiontest.Raise(t, lab)
}

// drifts wants the host to say that something has changed.
func drifts(t *testing.T, m *networktest.Machine, want string) {
	t.Helper()
	err := m.Stack.Verify(t.Context(), m.Kernel)
	if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), want) {
		t.Errorf("Verify = %v, want a drift with %q", err, want)
	}
}

// folder is where the files of the program are.
func folder(t *testing.T, m *networktest.Machine) string {
	t.Helper()
	dir, err := m.Kernel.RunDir("tinc")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Every host of several reaches every other one, as soon as all of them are verified.
func TestMesh(t *testing.T) {
	b := raise(t, compose(t, 4))
	for _, family := range []string{"ipv4", "ipv6"} {
		if err := b.Exchange(family, 28); err != nil {
			t.Error(err)
		}
	}
	for i, m := range b.Hosts {
		logs, err := m.Kernel.Logs()
		if err != nil {
			t.Fatal(err)
		}
		for j := range b.Hosts {
			if i != j && strings.Count(logs["tinc"], fmt.Sprintf("Connection with host%d (", j+1)) != 1 {
				t.Errorf("host %d is not connected to host %d exactly once:\n%s", i+1, j+1, logs["tinc"])
			}
		}
	}
}

// Verify notices files that are not as they were, and a program that does not answer.
func TestTampering(t *testing.T) {
	b := raise(t, compose(t, 2))
	near, far := b.Hosts[0], b.Hosts[1]
	dir := folder(t, near)
	for _, tt := range []struct{ path, old, other string }{
		{"tinc.conf", "Cipher = aes-256-cbc", "Cipher = none"},
		{"tinc.conf", "TunnelServer = yes", "TunnelServer = no"},
		{"hosts/host2", "198.18.0.2", "198.18.0.3"},
		{"hosts/host2", "Subnet = 10.2.0.0/16", "Subnet = 0.0.0.0/0"},
		{"hosts/host2", "BEGIN RSA PUBLIC KEY-----\nM", "BEGIN RSA PUBLIC KEY-----\nN"},
		{"hosts/host1", "", ""},
	} {
		path := filepath.Join(dir, tt.path)
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed, want := bytes.Replace(was, []byte(tt.old), []byte(tt.other), 1), ": want as it was written, got changed"
		if tt.old == "" {
			want, err = ": want present, got absent", os.Remove(path)
		} else if bytes.Equal(changed, was) {
			t.Errorf("%s does not have %q:\n%s", tt.path, tt.old, was)
		} else {
			err = os.WriteFile(path, changed, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		drifts(t, near, "file "+tt.path+want)
		if err := os.WriteFile(path, was, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.Verify(t); err != nil {
			t.Fatalf("as it was before: %v", err)
		}
	}
	stop := func(s syscall.Signal) {
		if err := far.Kernel.Running("tinc").Signal(s); err != nil {
			t.Error(err)
		}
	}
	stop(syscall.SIGSTOP)
	drifts(t, near, "connection to host2: want answers, got no answer")
	stop(syscall.SIGCONT)
	if err := errors.Join(b.Verify(t), b.Exchange("ipv4", 28)); err != nil {
		t.Error(err)
	}
}

// A process that is killed is noticed by both ends, with what became of it. The rest can be undone and built again.
func TestDeath(t *testing.T) {
	b := raise(t, compose(t, 2))
	r := b.Hosts[1].Kernel.Running("tinc")
	if err := r.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it was killed, and is not said to have died")
	}
	drifts(t, b.Hosts[1], "tinc died: signal: killed; its last lines")
	drifts(t, b.Hosts[0], "connection to host2: want answers, got no answer")
	if err := b.Undo(); err != nil {
		t.Error(err)
	}
	for i, m := range b.Hosts {
		if left, err := os.ReadDir(filepath.Dir(folder(t, m))); err != nil || len(left) != 2 { // tinc, just made, and log
			t.Errorf("host %d has %v: %v", i+1, left, err)
		}
		if err := os.Remove(folder(t, m)); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(b.Apply(t), b.Verify(t)); err != nil {
		t.Errorf("it cannot be built once more: %v", err)
	}
}

// Without the secret of a lab, or if the program does not start, nothing is left, and the error says why.
func TestFailures(t *testing.T) {
	b := raise(t, compose(t, 2))
	if err := b.Undo(); err != nil {
		t.Fatal(err)
	}
	m := b.Hosts[0]
	d := b.Lab.Top().Steps[0][0].(tinc.Daemon) //nolint:forcetypeassert // the test fails if it is not
	apply := func(d tinc.Daemon) error {
		return new(host.Stack).Apply(t.Context(), m.Kernel, host.Plan{Steps: []host.Step{d}})
	}
	bad := d
	bad.Cipher = "rot13"
	if err := apply(bad); err == nil || !strings.Contains(err.Error(), "Unrecognized cipher type!") {
		t.Errorf("Apply = %v, want that the cipher is not known", err)
	}
	m.Kernel.Entrust(host.Secret{})
	if err := apply(d); err == nil || !strings.Contains(err.Error(), "was not given the secret of its lab") {
		t.Errorf("Apply = %v, want that there is no secret", err)
	}
	if left, err := os.ReadDir(folder(t, m)); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}

// No key is where others could read it: in a step, in what was kept, in the command line, the environment, the log or
// the files of the program, or in what a drift says.
func TestKeysAreNotShown(t *testing.T) {
	b := raise(t, compose(t, 2))
	m := b.Hosts[0]
	places, files := encryptiontest.Shown(t, m, "tinc")
	if files < 5 { // its settings, two hosts, its process and the log
		t.Errorf("it has only %d files", files)
	}
	var secrets [][]byte
	for i := range b.Hosts {
		shown, err := tinc.Secrets(m.Kernel, i+1)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, shown...)
	}
	for what, text := range places {
		for _, s := range secrets {
			if len(s) < 32 || strings.Contains(text, fmt.Sprintf("%x", s)) || strings.Contains(text, fmt.Sprintf("%X", s)) ||
				bytes.Contains([]byte(text), s) {
				t.Errorf("%s shows a key", what)
			}
		}
		if strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, "ANS_KEY") && strings.Contains(text, ": 16 host") {
			t.Errorf("%s shows a key:\n%s", what, text)
		}
	}
}

// Each host has a key of its own, and all hosts derive the same ones.
func TestKeys(t *testing.T) {
	b, err := networktest.MakeBed(t, bridge.Network{}, compose(t, 2))
	testnet.Skip(t, err)
	var of [2][2]string
	for i, m := range b.Hosts {
		for j := range of {
			secrets, err := tinc.Secrets(m.Kernel, j+1)
			if err != nil {
				t.Fatal(err)
			}
			of[i][j] = fmt.Sprintf("%x", secrets)
		}
	}
	if of[0] != of[1] || of[0][0] == of[0][1] {
		t.Error("hosts derive other keys, or have the same one")
	}
}

// Values that tinc takes and that do not protect are refused with the reason.
func TestReasons(t *testing.T) {
	for given, want := range map[string]string{
		"aes-256-gcm": "have a tag of their own", "AES-256-GCM": "have a tag", "aes-256-ofb": "same key stream",
		"aes-256-ctr": "after a packet is lost", "none": "does not encrypt", "rot13": `invalid value "rot13" (valid: aes`,
	} {
		_, err := tinc.Encryption{}.Describe().Params.Resolve("encryption tinc", map[string]string{"cipher": given})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(valid: aes-256-cbc, ") {
			t.Errorf("cipher %s: %v, want %q and what is valid", given, err, want)
		}
	}
}

// The reasons hold: by AES-GCM no second packet leaves, and by AES-OFB all packets have the same key stream. Attacks
// from the wire tell: a null cipher is read, and equal packets look alike by AES-OFB.
func TestRefused(t *testing.T) {
	const size = 64
	const withstood, broken = attack.Withstood, attack.Broken
	for _, tt := range []struct {
		cipher string
		passes bool
		length int // of a frame
		read   attack.Verdict
		alike  attack.Verdict
	}{
		{"aes-256-gcm", false, 14 + 20 + 8 + 4 + 14 + 20 + 8 + size + 16, "", ""},
		{"aes-256-ofb", true, 14 + 20 + 8 + 4 + 14 + 20 + 8 + size + 16, withstood, broken},
		{"aes-256-cbc", true, 14 + 20 + 8 + 112 + 16, withstood, withstood},
		{"none", true, 14 + 20 + 8 + 4 + 14 + 20 + 8 + size + 16, broken, broken},
	} {
		t.Run(tt.cipher, func(t *testing.T) {
			lab := compose(t, 2)
			for i, steps := range lab.Spans[1].Steps {
				d := steps[0].(tinc.Daemon) //nolint:forcetypeassert // the test fails if it is not
				d.Cipher = tt.cipher
				lab.Spans[1].Steps[i][0] = d
			}
			b := raise(t, lab)
			tap, err := carriertest.Listen(b, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer tap.Close()
			err = b.Exchange("ipv4", size)
			if (err == nil) != tt.passes {
				t.Errorf("datagrams pass: %v, want that: %t", err, tt.passes)
			}
			frames, err := tap.Passed()
			if err != nil {
				t.Fatal(err)
			}
			var sent [][]byte
			for _, f := range frames {
				if w := host.WireOf(f); w.Protocol == 17 && w.Port == 655 {
					sent = append(sent, f)
				}
			}
			if !tt.passes {
				if len(sent) > 1 {
					t.Errorf("%d packets are sent, want no second one", len(sent))
				}
				return
			}
			if len(sent) < 2 || len(sent[0]) != tt.length || len(sent[1]) != tt.length {
				t.Fatalf("%d packets are sent, want two of %d bytes", len(sent), tt.length)
			}
			same := true
			for i := range size { // payload byte i of datagram n is i + n
				at := 14 + 20 + 8 + 4 + 14 + 20 + 8 + i
				same = same && sent[0][at]^sent[1][at] == byte(i)^byte(i+1)
			}
			if want := tt.cipher != "aes-256-cbc"; same != want {
				t.Errorf("two packets have the same key stream: %t, want %t", same, want)
			}
			target := encryptiontest.Target(b)
			out, err := wire.Run(t.Context(), target, []attack.Attack{wire.Sniff, wire.Patterns})
			if err != nil {
				t.Fatal(err)
			}
			got := target.Judge([]attack.Attack{wire.Sniff, wire.Patterns}, out, nil)
			if got[0].Verdict != tt.read || got[1].Verdict != tt.alike {
				t.Errorf("%+v, want %s and %s", got, tt.read, tt.alike)
			}
		})
	}
}

// The other cipher, over the other family, adds what it says.
func TestOther(t *testing.T) {
	given := map[string]string{"cipher": "aes-128-cbc", "outer": "ipv6"}
	between := carriertest.Choose(t, encryption.Kind{tinc.Encryption{}}, given)
	testnet.Skip(t, carriertest.OnWire(t, bridge.Network{}, between, udp655().Hidden))
}

// On an underlay with a large MTU packets are as large as tinc reads them whole.
func TestLargeUnderlay(t *testing.T) {
	lab := networktest.Lab(2, 1)
	lab.MTU, lab.Underlay.MTU = 1500, 9000
	between := carriertest.Choose(t, encryption.Kind{tinc.Encryption{}}, nil)
	lab, err := network.Compose(lab, between)
	if err != nil {
		t.Fatal(err)
	}
	if lab.Top().MTU != 1501 || lab.MTU != 1500 {
		t.Errorf("MTU of the span %d, of containers %d; want 1501 and 1500", lab.Top().MTU, lab.MTU)
	}
	b := raise(t, lab)
	defer func() {
		for _, m := range b.Hosts {
			if err := m.Stack.Undo(context.Background(), m.Kernel); err != nil {
				t.Error(err)
			}
		}
	}()
	if err := b.Exchange("ipv4", 1500-28); err != nil {
		t.Error(err)
	}
}
