package docker_test

import (
	"encoding/json"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime/docker"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

// TestSwarm makes an overlay twice, and removes it from data, each time twice: a daemon that had not left its swarm
// could not make another one.
func TestSwarm(t *testing.T) {
	testnet.Skip(t, docker.Runtime{}.Check(nil))
	k := runtimetest.Kernel(t, testnet.New(t))
	var daemon host.Stack
	defer func() {
		if err := daemon.Undo(t.Context(), k); err != nil {
			t.Error(err)
		}
	}()
	if err := daemon.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		docker.Containerd{}, docker.Daemon{}, host.Link{Name: "lo", Up: true},
	}}); err != nil {
		t.Fatal(err)
	}
	kinds := docker.Runtime{}.Steps()
	for range 2 {
		var overlay host.Stack
		if err := overlay.Apply(t.Context(), k, host.Plan{Steps: []host.Step{docker.Overlay{Segment: host.Segment{
			NS: "overlay", Bridge: "br0", Name: "vxlan0", MTU: 1450, Port: 4789, Ranges: []string{"10.0.0.0/8"},
		}}}}); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(overlay)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			again, err := host.Decoder{Kinds: kinds}.Stack(data)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Undo(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
	}
}
