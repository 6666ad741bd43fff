package docker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ipvlan"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/overlay"
	"github.com/nettoll/nettoll/network/passthrough"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime/docker"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

// TestJoin compares the plans of hosts whose networks Docker builds.
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
		{"macvlan-passthru", macvlan.Network{}, part.Params{"mode": "passthru"}, 2},
		{"ipvlan-l2", ipvlan.Network{}, part.Params{"mode": "l2"}, 1},
		{"ipvlan-l3", ipvlan.Network{}, part.Params{"mode": "l3"}, 2},
		{"overlay", overlay.Network{}, nil, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := runtimetest.Joined(t, docker.Runtime{}, c.network, c.hosts, 1, c.params)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "join-"+c.name, plan.String())
		})
	}
}

// TestCannotJoin wants an error that says why, and what helps.
func TestCannotJoin(t *testing.T) {
	for _, c := range []struct {
		name    string
		network network.Network
		params  part.Params
		want    string
	}{
		{
			"passthru of two containers",
			macvlan.Network{},
			part.Params{"mode": "passthru"},
			"Docker makes no two networks of the same addresses on a host (hint: a pair across hosts, or another mode)",
		},
		{"another type", passthrough.Network{}, nil, "Docker does not make the link of container src0: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := runtimetest.Joined(t, docker.Runtime{}, c.network, 2, 2, c.params)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Join = %v, want %q", err, c.want)
			}
		})
	}
}

// TestModes wants a mode that this Docker does not have to be unsupported: 20.10 has no l3s.
func TestModes(t *testing.T) {
	testnet.Skip(t, docker.Runtime{}.Check(nil))
	k := runtimetest.Kernel(t, testnet.New(t))
	var s host.Stack
	err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		docker.Containerd{},
		docker.Daemon{},
		host.Veth{Name: "lower0", PeerName: "idle0"},
		docker.Network{Driver: "ipvlan", Mode: "l3s", Lower: "lower0", Ranges: []string{"10.1.0.0/16"}, Routed: true},
	}})
	if u, is := errors.AsType[*linux.UnsupportedError](err); err != nil &&
		(!is || u.Missing != `mode "l3s" of its driver ipvlan`) {
		t.Errorf("mode l3s: %v", err)
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
}
