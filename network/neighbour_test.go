package network_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
)

// TestStaticNeighbours wants permanent neighbours where a lab has many containers, and only then, and wants those whose
// packets there will be.
func TestStaticNeighbours(t *testing.T) {
	for _, c := range []struct {
		name   string
		lab    network.Lab
		routed bool
		want   int
		first  string
	}{
		{"few", networktest.Lab(1, 100), true, 0, ""},
		{"bridged", networktest.Lab(1, 101), false, 202, "neighbour 10.1.1.1, fd00:10:1::1:1 at " +
			network.MAC(1, "host1", "snk0", "eth0") + " through eth0 in src0"},
		{"translated", networktest.Lab(1, 101), true, 3 * 202, ""},
		{"two hosts", networktest.Lab(2, 101), true, 2 * 101, "neighbour 10.1.0.1, fd00:10:1::1 at " +
			network.MAC(1, "host1", "br0") + " through eth0 in src0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps, _, err := network.Bridged(c.lab, c.lab.Hosts[0], c.routed)
			if err != nil {
				t.Fatal(err)
			}
			steps = slices.DeleteFunc(steps, func(s host.Step) bool { return s.Kind() != "neighbour" })
			if len(steps) != c.want {
				t.Errorf("%d neighbours, want %d", len(steps), c.want)
			}
			if len(steps) > 0 && !strings.HasPrefix(steps[0].String(), c.first) {
				t.Errorf("the first is %q, want %q", steps[0], c.first)
			}
		})
	}
}
