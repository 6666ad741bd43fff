package ipsec_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/ipsec"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
)

// Hosts take no cipher, group or version that is weaker than what they are set up for, and one that is told to take a
// weaker one is found.
func TestWeakerPlanted(t *testing.T) {
	b := raise(t, strongswan())
	attacked := func() attack.Result {
		target := encryptiontest.Target(b)
		out, err := wire.Run(t.Context(), target, []attack.Attack{wire.Weaker})
		if err != nil {
			t.Fatal(err)
		}
		return target.Judge([]attack.Attack{wire.Weaker}, out, nil)[0]
	}
	const offers = 4 // weaker ones, each from the other host and from a stranger
	if r := attacked(); r.Verdict != attack.Withstood || r.Lab[0].Sent != 2*offers {
		t.Fatalf("as it was built: %+v", r)
	}
	m := b.Hosts[1]
	loose := connection(device(t, m), "host1", map[string]map[string]any{"esp": {"policies": "no"}})
	maps.Copy(loose["host1"].(map[string]any), map[string]any{
		"version": "0", "proposals": []string{
			"aes256gcm16-prfsha256-ecp256", "3des-md5-modp1024", "aes128-sha1-modp2048", "aes256gcm16-prfsha256-modp1024",
		},
	})
	do(t, m, "load-conn", loose)
	r := attacked()
	if r.Verdict != attack.Broken || r.Lab[0].Arrived != offers {
		t.Fatalf("with all of them: %+v", r)
	}
	for _, got := range r.Lab[0].Holes {
		if !strings.HasSuffix(got, "the address of the other host") {
			t.Errorf("hole: %s, want one from the other host", got)
		}
	}
}

// FuzzAnswers reads datagrams from the wire as answers to each offer.
func FuzzAnswers(f *testing.F) {
	between := carriertest.Choose(f, encryption.Kind{ipsec.Encryption{}}, strongswan())
	lab, err := network.Compose(networktest.Lab(2, 1), between)
	if err != nil {
		f.Fatal(err)
	}
	offers := lab.Guards().Offers
	answer := func(first, version, flags byte, body ...byte) []byte {
		head := append([]byte("\x00\x00\x00\x00strangerresponds"), first, version, 34, flags, 0, 0, 0, 0, 0, 0, 0, 0)
		return append(head, body...)
	}
	f.Add(answer(33, 0x20, 0x20))
	f.Add(answer(41, 0x20, 0x20, 0, 0, 0, 8, 0, 0, 0, 14))                        // NO_PROPOSAL_CHOSEN
	f.Add(answer(41, 0x20, 0x20, 0, 0, 0, 12, 0, 0, 0x40, 6, 'c', 'o', 'o', 'k')) // COOKIE
	f.Add(answer(1, 0x10, 0))
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, o := range offers {
			mine, taken, again := o.Answers.Read(p)
			if (taken || again != nil) && !mine {
				t.Errorf("%s: %x is no answer, taken %v, again %x", o.Name, p, taken, again)
			}
			if again != nil && (taken || !bytes.HasSuffix(again, o.Data[32:])) {
				t.Errorf("%s: %x is answered with %x, and not with the offer", o.Name, p, again)
			}
		}
	})
}
