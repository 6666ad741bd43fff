package wireguard

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/nettoll/nettoll/internal/linux"
)

// Keys are clamped, another implementation derives the same public keys, and no verb shows a private key.
func TestPublic(t *testing.T) {
	random := []byte(strings.Repeat("\xff", 32))
	for _, b := range [][]byte{random, make([]byte, 32), []byte(strings.Repeat("key!", 8))} {
		p, err := NewPrivate(b)
		if err != nil {
			t.Fatal(err)
		}
		if p.key[0]&7 != 0 || p.key[31]&128 != 0 || p.key[31]&64 == 0 {
			t.Error("the key is not clamped")
		}
		if got, err := p.Public(); err != nil || wgtypes.Key(got) != wgtypes.Key(*p.key).PublicKey() {
			t.Errorf("public key %s, %v", got, err)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%s", "%d"} {
			text := fmt.Sprintf(verb, p) + fmt.Sprintf(verb, Config{Key: p})
			if !strings.Contains(text, "a private key") || strings.Contains(text, hex.EncodeToString(p.key[4:12])) {
				t.Errorf("%s shows %s", verb, text)
			}
		}
	}
	if _, err := NewPrivate(random[1:]); err == nil {
		t.Error("31 bytes are taken as a key")
	}
	if _, err := (Private{}).Public(); err == nil {
		t.Error("no key has a public key")
	}
}

// The answer of a device is read and compared with its configuration.
func TestGet(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	key := strings.Repeat("61", 32)
	peer := strings.Repeat("62", 32)
	for _, answer := range []string{
		"private_key=" + key + "\nlisten_port=5\npublic_key=" + peer + "\npreshared_key=" + strings.Repeat("0", 64) +
			"\nprotocol_version=1\nendpoint=[fd00::2]:5\nallowed_ip=10.0.0.0/8\nlast_handshake_time_sec=7\n" +
			"last_handshake_time_nsec=5\npersistent_keepalive_interval=0\nerrno=0\n\n",
		"errno=-22\n\n",
		"private_key=12\nerrno=0\n\n",
	} {
		go func() {
			r := bufio.NewReader(theirs)
			_, _ = r.ReadString('\n')
			_, _ = r.ReadString('\n')
			_, _ = theirs.Write([]byte(answer))
		}()
		got, err := Get(ours)
		if !strings.Contains(answer, "[fd00::2]") {
			if err == nil {
				t.Errorf("%q is read as %v", answer, got)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if last := got.Last(Public([]byte(strings.Repeat("b", 32)))); !last.Equal(time.Unix(7, 5)) {
			t.Errorf("last handshake at %v", last)
		}
		if last := got.Last(Public{}); !last.IsZero() {
			t.Errorf("last handshake with nobody at %v", last)
		}
		own, err := NewPrivate([]byte(strings.Repeat("a", 32)))
		if err != nil {
			t.Fatal(err)
		}
		want := Config{Key: own, Port: 5, Peers: []Peer{{
			Key: Public([]byte(strings.Repeat("b", 32))), Endpoint: netip.MustParseAddrPort("[fd00::2]:5"),
			Allowed: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		}}}
		if list, err := Compare(want, got); err != nil || len(list) > 0 {
			t.Errorf("it differs: %v, %v", list, err)
		}
		want.Port = 6
		list, err := Compare(want, got)
		if diff := cmp.Diff([]linux.Difference{{What: "port", Want: "6", Got: "5"}}, list, cmpopts.EquateEmpty()); diff != "" ||
			err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}
