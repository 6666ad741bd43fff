package ipsec_test

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
)

// A null cipher that somebody puts in the place of the one that was asked for leaks, and is named as that: by what
// passes the underlay, and by what encrypts. Packets pass all the same.
func TestNullPlanted(t *testing.T) {
	for _, impl := range []string{"strongswan", "kernel"} {
		t.Run(impl, func(t *testing.T) {
			b := raise(t, map[string]string{"impl": impl})
			if wrong, leak := heard(t, b); wrong != nil || leak != nil {
				t.Fatalf("as it was built: %v, %v", wrong, leak)
			}
			first := b.Hosts[0]
			if err := first.Kernel.Watch(); err != nil {
				t.Fatal(err)
			}
			if a, err := first.Stack.Audit(first.Kernel, false); err != nil || len(a.Changes) > 0 {
				t.Fatalf("an audit of what was built: %q (%v)", a.Changes, err)
			}
			want := "cipher of the security association with host2: want AES_GCM_16 256, got NULL HMAC_SHA1_96"
			if impl == "kernel" {
				want = "got ecb(cipher_null), key 0, value 0 bits; hmac(sha1), key 160, value 96 bits"
				for _, m := range b.Hosts {
					if err := m.Do(func() error { return eachState(nullify) }); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				for i, m := range b.Hosts {
					d, peer := device(t, m), []string{"host2", "host1"}[i]
					do(t, m, "load-conn", connection(d, peer, map[string]map[string]any{"esp": {
						"policies": "no", "esp_proposals": []string{"null-sha1"},
					}}))
				}
				do(t, b.Hosts[0], "terminate", map[string]any{"ike": "host2", "force": "yes"})
				do(t, b.Hosts[0], "initiate", map[string]any{"ike": "host2", "child": "esp"})
			}
			drifted(t, b, want)
			if a, err := first.Stack.Audit(first.Kernel, true); err != nil || !strings.Contains(strings.Join(a.Changes, "\n"), want) {
				t.Errorf("an audit finds %q (%v), want %q among it", a.Changes, err, want)
			}
			if _, leak := heard(t, b); leak == nil || !strings.Contains(leak.Error(), "it leaks: what a container sent can be read") {
				t.Errorf("with a null cipher the wire shows %v", leak)
			}
			target := encryptiontest.Target(b)
			out, err := wire.Run(t.Context(), target, []attack.Attack{wire.Sniff})
			if err != nil {
				t.Fatal(err)
			}
			if r := target.Judge([]attack.Attack{wire.Sniff}, out, nil)[0]; r.Verdict != attack.Broken {
				t.Errorf("with a null cipher the attack %s is %+v, want broken", wire.Sniff, r)
			}
		})
	}
}

// nullify has an association encrypt nothing.
func nullify(s netlink.XfrmState) error {
	if err := netlink.XfrmStateDel(&s); err != nil {
		return err
	}
	s.Aead, s.Replay = nil, nil
	s.Crypt = &netlink.XfrmStateAlgo{Name: "ecb(cipher_null)"}
	s.Auth = &netlink.XfrmStateAlgo{Name: "hmac(sha1)", Key: make([]byte, 20), TruncateLen: 96}
	return netlink.XfrmStateAdd(&s)
}

// heard has datagrams of full size exchanged, and says what the evidence of the lab says of the frames that pass.
func heard(t *testing.T, b *networktest.Bed) (wrong, leak error) {
	t.Helper()
	var taps [2]carriertest.Tap
	for i := range taps {
		var err error
		if taps[i], err = carriertest.Listen(b, i); err != nil {
			t.Fatal(err)
		}
		defer taps[i].Close()
	}
	p := carriertest.Passage{Span: b.Lab.Top(), Size: b.Lab.MTU - 28}
	if err := b.Exchange("ipv4", p.Size); err != nil {
		t.Fatal(err)
	}
	var list []host.Frames
	var ports []string
	for i, tap := range taps {
		frames, err := tap.Passed()
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, b.Lab.Hosts[i].Name())
		for _, f := range frames {
			one := host.Frames{Link: ports[i], Wire: host.WireOf(f), Count: 1, Longest: len(f)}
			if p.Readable(f) {
				one.Marked = 1
			}
			list = append(list, one)
		}
	}
	return network.NewEvidence(b.Lab, ports).Heard(list)
}
