package ipsec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/ipsec"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/routed"
)

// outer is how packets are recognized.
func outer(given map[string]string) encryptiontest.Outer {
	if given["encap"] == "none" {
		return encryptiontest.Outer{Protocol: 50}
	}
	return encryptiontest.Outer{Protocol: 17, Port: 4500}
}

func TestConformanceStrongSwan(t *testing.T) {
	testnet.NotInGuest(t, "the process does there what it does on the machine")
	given := map[string]string{"impl": "strongswan"}
	encryptiontest.Conformance(t, ipsec.Encryption{}, given, outer(given), bridge.Network{}, routed.Network{},
		ebpf.Network{})
}

func TestConformanceKernel(t *testing.T) {
	given := map[string]string{"impl": "kernel"}
	encryptiontest.Conformance(t, ipsec.Encryption{}, given, outer(given), bridge.Network{}, routed.Network{},
		ebpf.Network{})
}

// Each cipher adds what it says, in packets of both families, and hides what containers send, but for null. It also
// refuses what was changed, repeated or never encrypted.
func TestWire(t *testing.T) {
	for _, given := range []map[string]string{
		{"impl": "strongswan", "outer": "ipv6"},
		{"impl": "strongswan", "cipher": "aes-128-gcm"},
		{"impl": "strongswan", "cipher": "aes-256-cbc"},
		{"impl": "strongswan", "cipher": "null"},
		{"impl": "kernel", "outer": "ipv6"},
		{"impl": "kernel", "outer": "ipv6", "encap": "none"},
		{"impl": "kernel", "encap": "none", "cipher": "aes-128-gcm"},
		{"impl": "kernel", "encap": "none", "cipher": "aes-256-cbc"},
		{"impl": "kernel", "encap": "none", "cipher": "null"},
	} {
		between := carriertest.Choose(t, encryption.Kind{ipsec.Encryption{}}, given)
		t.Run(between[0].ID(), func(t *testing.T) {
			if given["impl"] == "strongswan" {
				testnet.NotInGuest(t, "the process does there what it does on the machine")
			}
			judge := outer(given).Hidden
			if given["cipher"] == "null" {
				judge = readable
			}
			err := carriertest.OnWire(t, bridge.Network{}, between, judge)
			if err == nil {
				err = encryptiontest.Forged(t, bridge.Network{}, between)
			}
			testnet.Skip(t, err)
		})
	}
}

// readable wants the payload of every packet to be seen in a frame of the right length.
func readable(p carriertest.Passage) error {
	for i, frames := range p.Frames {
		found := 0
		for _, f := range frames {
			if p.Readable(f) && len(f) == p.Length() {
				found++
			}
		}
		if found < networktest.Exchanged {
			return fmt.Errorf("of %d frames from host %d %d have %d bytes and can be read, and %d were sent", len(frames), i+1,
				found, p.Length(), networktest.Exchanged)
		}
	}
	return nil
}

// What is added is that of the RFCs, and no packet is larger than charon takes.
func TestOverhead(t *testing.T) {
	for _, tt := range []struct {
		given                  map[string]string
		below, mtu, small, big int // small and big are what 100 bytes and the MTU become on the wire
	}{
		{nil, 1500, 1398, 164, 1460},
		{map[string]string{"impl": "kernel"}, 1500, 1438, 164, 1500},
		{map[string]string{"impl": "kernel", "encap": "none"}, 1500, 1446, 156, 1500},
		{map[string]string{"impl": "kernel", "encap": "none", "outer": "ipv6"}, 1500, 1426, 176, 1500},
		{map[string]string{"impl": "strongswan", "outer": "ipv6"}, 1450, 1366, 184, 1448},
		{map[string]string{"cipher": "aes-128-gcm"}, 1500, 1398, 164, 1460},
		{map[string]string{"cipher": "aes-256-cbc"}, 1500, 1390, 176, 1456},
		{map[string]string{"impl": "kernel", "encap": "none", "cipher": "aes-256-cbc"}, 1500, 1438, 168, 1496},
		{map[string]string{"cipher": "null"}, 1500, 1398, 152, 1448},
		{map[string]string{"impl": "kernel", "encap": "none", "cipher": "null"}, 1500, 1458, 144, 1500},
	} {
		between := carriertest.Choose(t, encryption.Kind{ipsec.Encryption{}}, tt.given)
		lab := networktest.Lab(2, 1)
		lab.MTU = tt.below
		lab, err := network.Compose(lab, between)
		if err != nil {
			t.Fatal(err)
		}
		s := lab.Top()
		if small, big := s.Overhead.On(100, s.MTU), s.Overhead.On(s.MTU, s.MTU); s.MTU != tt.mtu || small != tt.small ||
			big != tt.big {
			t.Errorf("%s: MTU %d, 100 bytes become %d, the largest packet %d; want %d, %d, %d", between[0].ID(), s.MTU, small,
				big, tt.mtu, tt.small, tt.big)
		}
		evidence := network.NewEvidence(lab, []string{"host1"})
		text := evidence.Text() + ", " + evidence.Hidden()
		want, protected := "nothing that containers send can be read", tt.given["cipher"] != "null"
		if !protected {
			want = "what containers send can be read in them"
		}
		if s.Protected != protected || !strings.Contains(text, want) {
			t.Errorf("%s: protected %t, and %q", between[0].ID(), s.Protected, text)
		}
		if tt.given["encap"] == "none" && !strings.Contains(text, "ESP (IP protocol 50)") {
			t.Errorf("%s: %q", between[0].ID(), text)
		}
	}
}

// Values that do not exist, or do not go together, are refused with those that do.
func TestRefused(t *testing.T) {
	kind := encryption.Kind{ipsec.Encryption{}}
	lab := networktest.Lab(2, 1)
	for _, tt := range []struct {
		given map[string]string
		want  string
	}{
		{
			map[string]string{"impl": "strongswan", "encap": "none", "cipher": "null", "outer": "ipv4"},
			"impl=strongswan carries ESP in UDP only",
		},
		{
			map[string]string{"impl": "auto", "encap": "udp", "cipher": "3des", "outer": "ipv4"},
			`invalid cipher "3des" (valid: aes-256-gcm, aes-128-gcm, aes-256-cbc, null)`,
		},
		{
			map[string]string{"impl": "libreswan", "encap": "udp", "cipher": "null", "outer": "ipv4"},
			`invalid value "libreswan" for impl (valid: auto, kernel, strongswan)`,
		},
	} {
		err := ipsec.Encryption{}.Check(tt.given)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Check(%v) = %v, want %q", tt.given, err, tt.want)
		}
	}
	between := carriertest.Choose(t, kind, map[string]string{"impl": "strongswan", "encap": "none"})
	if _, err := network.Compose(lab, between); err == nil {
		t.Error("strongSwan is built without UDP")
	}
	if err := (ipsec.Encryption{}).Check(map[string]string{
		"impl": "kernel", "encap": "none", "cipher": "aes-256-gcm",
	}); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Check of the kernel says %v", err)
	}
}
