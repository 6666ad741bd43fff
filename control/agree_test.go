package control

import (
	"testing"

	"github.com/nettoll/nettoll/experiment"
)

// TestAgree wants a run to keep the congestion control of its first generation, also if the lab is lost that allowed no
// other.
func TestAgree(t *testing.T) {
	r := &experiment.Resolved{}
	r.Experiment.Tune.Congestion = "auto"
	c := &configurator{resolved: r}
	root, container := &lab{congestion: []string{"cubic", "reno", "bbr"}}, &lab{congestion: []string{"reno", "bbr"}}
	for i, tt := range []struct {
		labs []*lab
		want string
		err  string
	}{
		{[]*lab{root, container}, "reno", ""},
		{[]*lab{root, nil}, "reno", ""},
		{[]*lab{nil, nil}, "reno", ""},
		{
			[]*lab{root, {congestion: []string{"cubic"}}},
			"reno",
			`congestion control "reno", used in the first generation, can no longer be set`,
		},
	} {
		got := ""
		if err := c.agree(&generation{labs: tt.labs}); err != nil {
			got = err.Error()
		}
		if got != tt.err || c.congestion != tt.want {
			t.Errorf("generation %d: %q, error %q, want %q and %q", i+1, c.congestion, got, tt.want, tt.err)
		}
	}
}
