package ipsec

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func example() Config {
	return Config{
		Cipher: Ciphers()[0], Host: 1, At: netip.MustParseAddr("198.18.0.1"),
		Own: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		Peers: []Peer{{
			Host: 2, At: netip.MustParseAddr("198.18.0.2"), Ranges: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")},
			Shared: NewKey([]byte(strings.Repeat("s", 32))),
		}},
	}
}

// No verb shows a key, no encoder encodes one, and charon's configuration of a connection contains none.
func TestKeyIsNotShown(t *testing.T) {
	c := example()
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%s", "%d", "%q"} {
		text := fmt.Sprintf(verb, c.Peers[0].Shared) + fmt.Sprintf(verb, c.Peers[0]) + fmt.Sprintf(verb, c)
		if !strings.Contains(text, "a key") || strings.Contains(text, "ssss") ||
			strings.Contains(text, hex.EncodeToString([]byte("ssss"))) || strings.Contains(text, "115 115 115") {
			t.Errorf("%s shows %s", verb, text)
		}
	}
	if text, err := json.Marshal(c.Peers[0]); err == nil {
		t.Errorf("it is encoded: %s", text)
	}
	if text := fmt.Sprintf("%q", connection(c, c.Peers[0])); strings.Contains(text, "ssss") {
		t.Errorf("the connection holds the key: %s", text)
	}
}

// The settings of charon contain its socket and no key.
func TestSettings(t *testing.T) {
	i := Instance{Dir: "/run/x"}
	text := fmt.Sprintf(settings, table, priority, i.socket())
	for _, want := range []string{"socket = unix:///run/x/vici", "routing_table_prio = 40000", "kernel-libipsec kernel-netlink"} {
		if !strings.Contains(text, want) {
			t.Errorf("the settings lack %q", want)
		}
	}
}

// Every cipher is found by its name; the lengths of keys are those of the RFCs.
func TestCiphers(t *testing.T) {
	want := map[string]int{"aes-256-gcm": 36, "aes-128-gcm": 20, "aes-256-cbc": 52, "null": 20}
	for _, name := range Names() {
		c, err := Find(name)
		if err != nil || c.Name != name || c.KeyLength() != want[name] || c.Block < 4 || c.Null != (name == "null") {
			t.Errorf("%s is %+v with a key of %d bytes: %v", name, c, c.KeyLength(), err)
		}
	}
	if _, err := Find("des"); err == nil || !strings.Contains(err.Error(), `invalid cipher "des" (valid: aes-256-gcm, `) {
		t.Errorf("des: %v", err)
	}
}
