package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiff(t *testing.T) {
	link := func(what string) thing { return thing{"link eth0", what} }
	own := link("link eth0")
	before := state{own: "veth, number 2", link("MTU of eth0"): "1500", {"", "rule 1"}: "table main"}
	for _, c := range []struct {
		name          string
		before, after state
		trail         trail
		may           tolerance
		want          []string
	}{
		{name: "nothing", before: before, after: before},
		{
			name: "a changed part", before: before,
			after: state{own: "veth, number 2", link("MTU of eth0"): "9000", {"", "rule 1"}: "table main"},
			want:  []string{"MTU of eth0: 1500 → 9000"},
		},
		{
			name: "what is gone as a whole is one thing", before: before, after: state{{"", "rule 1"}: "table main"},
			want: []string{"link eth0: removed (it was veth, number 2)"},
		},
		{
			name: "what is new as a whole is one thing", before: state{}, after: before,
			want: []string{"link eth0: added (veth, number 2)", "rule 1: added (table main)"},
		},
		{
			name: "came and went", before: state{}, after: state{},
			trail: trail{own: {"veth, number 3", ""}, link("MTU of eth0"): {"1500"}},
			want:  []string{"link eth0: added (veth, number 3) and removed again"},
		},
		{
			name: "went and came back", before: before, after: before, trail: trail{own: {"", "veth, number 2"}},
			want: []string{"link eth0: removed (it was veth, number 2) and added again"},
		},
		{
			name: "was another for a while", before: before, after: before, trail: trail{link("MTU of eth0"): {"9000", "1500"}},
			want: []string{"MTU of eth0: 1500 → 9000 → 1500"},
		},
		{name: "said again as it is", before: before, after: before, trail: trail{link("MTU of eth0"): {"1500"}}},
		{
			name: "a neighbour is learned and forgotten", before: state{{"", "a"}: "02:01"}, after: state{{"", "b"}: "02:02"},
			trail: trail{{"", "c"}: {"02:03", ""}}, may: learned,
		},
		{
			name: "a neighbour is rewritten", before: state{{"", "a"}: "02:01"}, after: state{{"", "a"}: "02:02"}, may: learned,
			want: []string{"a: 02:01 → 02:02"},
		},
		{
			name: "a neighbour is rewritten for a while", before: state{{"", "a"}: "02:01"}, after: state{}, may: learned,
			trail: trail{{"", "a"}: {"02:02", ""}},
			want:  []string{"a: 02:01 → 02:02 → 02:01"},
		},
		{
			name: "a permanent neighbour comes or goes", before: state{{"", "a"}: "02:01" + permanently},
			after: state{{"", "b"}: "02:02" + permanently}, may: learned,
			want: []string{"a: removed (it was 02:01, permanent)", "b: added (02:02, permanent)"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.may == nil {
				c.may = nothing
			}
			changes := diff(c.before, c.after, c.may)
			var got []string
			for _, one := range append(changes, c.trail.passed(c.before, changes, c.may)...) {
				got = append(got, one.String())
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
