package podman_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ipvlan"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/podman"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

// TestJoin compares the plans of hosts whose networks Podman builds.
func TestJoin(t *testing.T) {
	for _, c := range []struct {
		name    string
		network network.Network
		params  part.Params
		hosts   int
	}{
		{"bridge", bridge.Network{}, nil, 1},
		{"nat", nat.Network{}, nil, 2},
		{"macvlan-vepa", macvlan.Network{}, part.Params{"mode": "vepa"}, 1},
		{"macvlan-passthru", macvlan.Network{}, part.Params{"mode": "passthru"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := runtimetest.Joined(t, podman.Runtime{}, c.network, c.hosts, 1, c.params)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "join-"+c.name, plan.String())
		})
	}
}

// TestCannotJoin wants a link that netavark of Podman 4.3 does not make to be refused.
func TestCannotJoin(t *testing.T) {
	_, err := runtimetest.Joined(t, podman.Runtime{}, ipvlan.Network{}, 1, 1, nil)
	want := "Podman does not make the link of container src0: ipvlan "
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "links of type veth, macvlan") {
		t.Errorf("Join = %v, want %q and what it makes", err, want)
	}
}

// TestNetwork has Podman note a network, under the name of its bridge, and wants the note to go.
func TestNetwork(t *testing.T) {
	testnet.Skip(t, podman.Runtime{}.Check(part.Params{"command": "runc"}))
	testnet.Skip(t, podman.Runtime{}.CheckJoin())
	k := runtimetest.Kernel(t, testnet.New(t))
	n := podman.Network{
		Driver: runtime.TypeVeth, Link: "br0", MTU: 1400, Gateways: []string{"10.1.0.1/16", "fd00:10:1::1/64"},
		Ranges: []string{"10.1.0.0/16", "fd00:10:1::/64"},
	}
	var s host.Stack
	if err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{podman.Store{Networks: true}, n}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context(), k); err != nil {
		t.Error(err)
	}
	file, err := podman.Noted(k, n)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var note map[string]any
	if err := json.Unmarshal(text, &note); err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, key := range []string{"name", "driver", "network_interface", "internal", "dns_enabled", "ipv6_enabled", "options"} {
		got[key] = note[key]
	}
	want := map[string]any{
		"name": "br0", "driver": "bridge", "network_interface": "br0", "internal": false, "dns_enabled": false,
		"ipv6_enabled": true, "options": map[string]any{"mtu": "1400"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Podman has noted (-want +got):\n%s", diff)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	drift, is := errors.AsType[*host.DriftError](n.Verify(k))
	if !is || !strings.Contains(drift.Error(), "network br0 of Podman: want present, got absent") {
		t.Errorf("a network that is gone: %v", drift)
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
}
