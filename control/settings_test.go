package control

import (
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
)

// Each lab has the MTU of its stack on all of its links, and each socket the congestion control of its own.
func TestSettingsOfLabs(t *testing.T) {
	parts := catalogue.New().Parts()
	e, err := experiment.Read("f.yaml", []byte("factors: {network: bridge, mtu: [1500, 9000], congestion_control: [cubic, bbr]}\n"+
		"workloads: [tcp-stream]\n"), nil, parts)
	if err != nil {
		t.Fatal(err)
	}
	r, err := experiment.Resolve(e, parts, 2)
	if err != nil {
		t.Fatal(err)
	}
	plans, err := Plans(r, []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(plans) != 10 {
		t.Errorf("%d labs, want 4 and a twin in each placement", len(plans))
	}
	for _, p := range plans {
		want, other := " mtu 1500", " mtu 9000"
		if strings.Contains(p.Lab, "mtu=9000") {
			want, other = other, want
		}
		for _, h := range append(slices.Clone(p.Hosts), p.Underlay) {
			if text := h.String(); strings.Contains(text, other) || h.Steps != nil && !strings.Contains(text, want) {
				t.Errorf("lab %s:\n%s", p.Lab, text)
			}
		}
	}
	for _, l := range r.Labs {
		if strings.Contains(l.ID, "congestion=bbr") != (l.Congestion == "bbr") {
			t.Errorf("lab %s has the congestion control %q", l.ID, l.Congestion)
		}
	}
}

// A lab in which the congestion control of its stack cannot be set is not measured; the others go on.
func TestCongestionControlThatCannotBeSet(t *testing.T) {
	usual := &lab{Lab: experiment.Lab{ID: "usual"}, congestion: []string{"cubic", "reno"}}
	own := &lab{
		Lab:        experiment.Lab{ID: "own", Settings: experiment.Settings{Congestion: "bbr"}},
		congestion: []string{"cubic", "reno"},
	}
	g := &generation{labs: []*lab{usual, own}}
	c := &configurator{resolved: &experiment.Resolved{Experiment: experiment.Experiment{Tune: experiment.Tune{Congestion: "auto"}}}}
	if err := c.agree(g); err != nil || c.congestion != "cubic" {
		t.Errorf("%q, %v", c.congestion, err)
	}
	if err := usual.congested(); err != nil {
		t.Error(err)
	}
	const want = `congestion control "bbr" cannot be set there (can be set: cubic, reno)`
	if err := own.congested(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
