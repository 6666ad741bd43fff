package experiment_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
)

// An experiment that keeps some cells has these cells, their baselines and twins, and the labs and visits that they
// need. Resolved again, it is the same.
func TestKeep(t *testing.T) {
	e := read(t, `
factors: {network: [bridge, macvlan], placement: [same-host, cross-host], pairs: [1, 4]}
workloads: [udp-rr, tcp-stream]
`)
	r := resolve(t, e, 4)
	const cell = "bridge/cross-host/4/tcp-stream(message=131072)"
	kept := r.Keep([]string{cell, "no such cell"})
	want := []string{
		"host/cross-host/4/tcp-stream(message=131072) <  @ host/cross-host/4",
		"host/cross-host/4/tcp-stream(message=131072)#2 < host/cross-host/4/tcp-stream(message=131072) @ host/cross-host/4#2",
		cell + " < host/cross-host/4/tcp-stream(message=131072) @ bridge/cross-host/4",
	}
	if diff := cmp.Diff(want, ids(kept)); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	for i, v := range kept.Visits {
		if len(kept.Visits) != 3 || v.ID != kept.Cells[i].ID || !slices.Equal(v.Cells, []int{i}) || kept.Cells[i].Visit != i {
			t.Errorf("visits %+v", kept.Visits)
		}
	}
	if len(kept.Labs) != 3 || len(r.Cells) != 32 || r.Experiment.Only != nil {
		t.Errorf("%d labs; of the experiment itself %d cells are left", len(kept.Labs), len(r.Cells))
	}
	if diff := cmp.Diff(ids(kept), ids(resolve(t, kept.Experiment, 4))); diff != "" {
		t.Errorf("resolved again (-want +got):\n%s", diff)
	}
	e.Only = []string{"gone"}
	if _, err := experiment.Resolve(e, catalogue.New().Parts(), 4); err == nil {
		t.Error("an experiment of no cell was resolved")
	}

	// A member of a mix is measured with the others, and alone.
	mix := resolve(t, read(t, `
factors: {network: [bridge, macvlan], placement: same-host, pairs: 2}
workloads: [{mix: [udp-rr, tcp-stream]}, udp-rr]
`), 2)
	kept = mix.Keep([]string{mix.Cells[2].ID})
	n := 0
	for _, c := range kept.Cells {
		if c.Stack == "macvlan" || c.Mix == nil && c.Alone == "" {
			t.Errorf("%s was kept", c.ID)
		}
		if c.Alone != "" {
			n++
		}
	}
	if len(kept.Cells) != 9 || n != 3 || len(kept.Visits) != 6 {
		t.Errorf("%d cells, %d of them alone, in %d visits", len(kept.Cells), n, len(kept.Visits))
	}
}
