package suite

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/nettoll/nettoll/measure"
)

// A claim about a network plugin is tried only on a cluster that has it, and in a plan, which may be for any cluster. The
// claims about all plugins are tried on every cluster.
func TestPlugins(t *testing.T) {
	s := find(t, "cilium-benchmark")
	run := runOf(resolve(t, s))
	all := func(*measure.Cell) (rate, latency float64) { return 1, 1 }
	for _, tt := range []struct {
		facts   map[string]any
		missing string // of a claim about Cilium
	}{
		{nil, ""},
		{map[string]any{"network_plugins": []string{"calico/node:v3.30.0", "cilium:v1.19.1"}}, ""},
		{
			map[string]any{"network_plugins": []string{"calico/node:v3.30.0", "flannel"}},
			"it needs a cluster with cilium (this one has calico/node:v3.30.0, flannel)",
		},
		{map[string]any{"cpus": 2}, "it needs a cluster with cilium (it is not known which this one has)"},
	} {
		for _, read := range []bool{false, true} { // as it is in a run, and as it is read from a file
			run.Facts = tt.facts
			if read {
				text, err := json.Marshal(tt.facts)
				if err != nil {
					t.Fatal(err)
				}
				run.Facts = nil
				if err := json.Unmarshal(text, &run.Facts); err != nil {
					t.Fatal(err)
				}
			}
			tried := 0
			items := s.Items(&run)[len(s.Drawings):]
			for i, c := range evaluate(s, run, world(run, 5, 2, 0.001, all)).Claims {
				if c.Untried != "" {
					continue
				}
				want := tt.missing
				if len(c.Plugins) == 0 {
					want = ""
				}
				if c.Tried() != (want == "") || c.Tried() != (len(items[i].Cells) > 0) {
					t.Errorf("%v: %s: tried %v, cells %q, want %q", tt.facts, c.ID, c.Tried(), items[i].Cells, want)
				}
				for _, p := range c.Parts {
					if want != "" && p.Missing != want {
						t.Errorf("%v: %s: %q, want %q", tt.facts, c.ID, p.Missing, want)
					}
					if math.IsNaN(p.There) == (c.Plot == "") {
						t.Errorf("%s: in the paper %g", c.ID, p.There)
					}
				}
				if c.Tried() {
					tried++
				}
			}
			if about := 6; tt.missing != "" && tried != len(s.Claims)-1-about || tt.missing == "" && tried != len(s.Claims)-1 {
				t.Errorf("%v: %d claims tried, of which %d are about Cilium", tt.facts, tried, about)
			}
		}
	}
}
