package report

import (
	"slices"
	"testing"

	"github.com/nettoll/nettoll/measure"
)

// The title of a run without a name says what was measured.
func TestTitle(t *testing.T) {
	cells := func(placement, base, label string, stacks ...string) []measure.Cell {
		list := []measure.Cell{
			{ID: base + placement, Stack: base, Label: label, Placement: placement},
			{ID: base + placement + "#2", Stack: base, Label: label, Placement: placement, Baseline: base, Twin: true},
		}
		for _, s := range stacks {
			list = append(list, measure.Cell{ID: s + placement, Stack: s, Placement: placement, Baseline: base})
		}
		return list
	}
	here := cells("same-host", "host", "loopback", "bridge", "macvlan")
	there := cells("cross-host", "host", "", "bridge", "nat", "macvlan")
	filtered := cells("same-host", "host", "loopback", "routed+nftables(rules=10)", "routed+nftables(rules=20)")
	for i := range filtered[2:] {
		filtered[2+i].Parts = []measure.Part{{Name: "routed", Label: "routed"}, {Name: "nftables", Label: "+nftables"}}
	}
	relabelled := cells("cross-host", "bridge", "", "host+nftables+mtu=9000")
	relabelled[2].Parts = []measure.Part{
		{Name: "host", Label: "loopback"}, {Name: "nftables", Label: "+nftables"}, {Name: "9000", Label: "+mtu=9000"},
	}
	for _, c := range []struct {
		name, title, directory string
		cells                  []measure.Cell
	}{
		{"mine", "mine", "mine", here},
		{"default", "bridge and macvlan over loopback", "bridge-macvlan", here},
		{"default", "bridge, nat and macvlan over host across hosts", "bridge-nat-macvlan", there},
		{
			"experiment", "bridge, macvlan and nat over loopback and across hosts", "bridge-macvlan-nat",
			slices.Concat(here, there),
		},
		{"", "macvlan over bridge on one host", "macvlan", cells("same-host", "bridge", "", "macvlan")},
		{"default", "macvlan over bridge across hosts", "macvlan", cells("cross-host", "bridge", "", "macvlan")},
		{"default", "a, b, c and 2 more over loopback", "a-b-c-d-e", cells("same-host", "host", "loopback", "a", "b", "c", "d", "e")},
		{
			"default", "routed+nftables(rules=10) and routed+nftables(rules=20) over loopback", "routed-nftables",
			filtered,
		},
		{
			"default", "host+nftables+mtu=9000 over bridge across hosts", "host-nftables-mtu-9000", relabelled,
		},
		{"default", "default", "default", nil},
		{"", "a run", "run", nil},
	} {
		run := measure.Run{Name: c.name, Cells: c.cells}
		if got := Title(run); got != c.title {
			t.Errorf("title %q, want %q", got, c.title)
		}
		if got := DirectoryName(run); got != c.directory {
			t.Errorf("directory %q, want %q", got, c.directory)
		}
	}
}
