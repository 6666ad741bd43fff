package host_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
)

// A host waits for those that make something in its namespaces, and for no others.
func TestWaves(t *testing.T) {
	reach := func(names ...string) host.Plan {
		p := host.Plan{Steps: []host.Step{host.Bridge{Name: "br0"}}}
		for _, n := range names {
			p.Steps = append(p.Steps, host.Veth{Name: "v", PeerNS: n, PeerName: "up0"})
		}
		return p
	}
	for _, c := range []struct {
		name  string
		plans []host.Plan
		want  [][]int
		err   string
	}{
		{"alone", []host.Plan{reach("c", "@machine", "@a")}, [][]int{{0}}, ""},
		{"at the same time", []host.Plan{reach(), reach("c"), reach()}, [][]int{{0, 1, 2}}, ""},
		{"an underlay", []host.Plan{reach(), reach(), reach("@a", "@b", "@a")}, [][]int{{2}, {0, 1}}, ""},
		{"one behind another", []host.Plan{reach("@b"), reach("@c"), reach()}, [][]int{{0}, {1}, {2}}, ""},
		{"only those that are reached", []host.Plan{reach("@c"), reach(), reach()}, [][]int{{0, 1}, {2}}, ""},
		{"each other", []host.Plan{reach("@b"), reach("@a"), reach()}, nil, "hosts a, b wait for each other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			names := []string{"a", "b", "c"}[:len(c.plans)]
			got, err := host.Waves(names, c.plans)
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && err != nil {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("waves (-want +got):\n%s", diff)
			}
		})
	}
}
