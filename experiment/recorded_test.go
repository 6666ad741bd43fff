package experiment_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// Cells say as data what their ids say. Records from before they did are read as if they had.
func TestRecordedIDs(t *testing.T) {
	texts := []string{
		neighbour,
		"factors: {network: bridge, placement: cross-host, pairs: 3, hosts: [2, 3], affinity: [split, same]}\n" +
			"workloads: [{udp-rr: {flows: [1, 2], response: [same, 100], rate: [closed, 1000/s]}}, {tcp-stream: {nodelay: true}}]\n",
		"factors: {network: bridge, placement: same-host}\nworkloads: [{command: {}}, {udp-rr: {driver: sockperf}}]\n" +
			"design: {probe: softirq}\n",
	}
	all, err := experiment.Examples()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		texts = append(texts, string(x.Text))
	}
	for _, text := range texts {
		for _, c := range resolve(t, read(t, text), 4).Cells {
			slices.Sort(c.Unnamed)
			b, err := json.Marshal(c.Cell)
			if err != nil {
				t.Fatal(err)
			}
			older := c.Cell
			older.Unnamed, older.Others, older.Place = nil, nil, ""
			without, err := json.Marshal(older)
			if err != nil {
				t.Fatal(err)
			}
			for what, record := range map[string][]byte{"a new record": b, "an older record": without} {
				var got measure.Cell
				if err := json.Unmarshal(record, &got); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.Cell, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s of %s (-measured +read):\n%s", what, c.ID, diff)
				}
			}
			if twin := map[bool]string{true: "#2"}[c.Twin]; c.Lab < 0 || c.Cell.Lab != c.Stack+"/"+c.Place+twin {
				t.Errorf("%s has the place %q in the lab %q", c.ID, c.Place, c.Cell.Lab)
			}
		}
	}
}
