package openvpn_test

import (
	"testing"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/openvpn"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/routed"
)

// udp1194 is how its packets are recognized.
func udp1194() encryptiontest.Outer { return encryptiontest.Outer{Protocol: 17, Port: 1194} }

func TestConformance(t *testing.T) {
	testnet.Program(t, "openvpn", "openvpn")
	testnet.NotInGuest(t, "the process does there what it does on the machine")
	encryptiontest.Conformance(t, openvpn.Encryption{}, nil, udp1194(), bridge.Network{}, routed.Network{}, ebpf.Network{})
}

// Other ciphers, and the other family of outer packets: full-size packets pass, they are as long on the wire as the
// overhead says, and nothing can be read. With an AEAD cipher no byte can be changed, those of the header included.
func TestCiphers(t *testing.T) {
	testnet.Program(t, "openvpn", "openvpn")
	testnet.NotInGuest(t, "the process does there what it does on the machine")
	for _, c := range []struct {
		given  map[string]string
		forged bool
	}{
		{given: map[string]string{"cipher": "aes-256-gcm", "outer": "ipv6"}, forged: true},
		{given: map[string]string{"cipher": "aes-128-gcm"}},
		{given: map[string]string{"cipher": "chacha20-poly1305"}},
	} {
		between := carriertest.Choose(t, encryption.Kind{openvpn.Encryption{}}, c.given)
		t.Run(between[0].ID(), func(t *testing.T) {
			t.Parallel()
			if err := carriertest.OnWire(t, bridge.Network{}, between, udp1194().Hidden); err != nil {
				testnet.Skip(t, err)
			}
			if !c.forged {
				return
			}
			if err := encryptiontest.Forged(t, bridge.Network{}, between); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPlan shows what the second of three hosts does: it is a TLS client of the first, and the server of the third.
func TestPlan(t *testing.T) {
	between := carriertest.Choose(t, encryption.Kind{openvpn.Encryption{}}, nil)
	lab, err := network.Compose(networktest.Lab(3, 1), between)
	if err != nil {
		t.Fatal(err)
	}
	plans, _, err := network.Join(bridge.Network{}, lab)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "plan", plans[1].String())
}

// Two hosts have one port, a host has another one for each other host, and all ports together are what the span says.
func TestPorts(t *testing.T) {
	between := carriertest.Choose(t, encryption.Kind{openvpn.Encryption{}}, nil)
	for hosts := 2; hosts <= 9; hosts++ {
		lab, err := network.Compose(networktest.Lab(hosts, 1), between)
		if err != nil {
			t.Fatal(err)
		}
		all := map[int]bool{}
		for one := 1; one <= hosts; one++ {
			own := map[uint16]bool{}
			for other := 1; other <= hosts; other++ {
				if one == other {
					continue
				}
				p := openvpn.Port(one, other, hosts)
				if p != openvpn.Port(other, one, hosts) || own[p] {
					t.Errorf("%d hosts: port %d of host %d for host %d: want that of the other end, and of no third host", hosts, p,
						one, other)
				}
				own[p], all[int(p)] = true, true
			}
		}
		w := lab.Top().Wire
		if len(w) != 1 || w[0].Port != 1194 || max(w[0].Port, w[0].Last) != 1194+len(all)-1 {
			t.Errorf("%d hosts use the %d ports %v, and the span says %+v", hosts, len(all), all, w)
		}
		for p := range len(all) {
			if !all[1194+p] {
				t.Errorf("%d hosts do not use port %d", hosts, 1194+p)
			}
		}
	}
}
