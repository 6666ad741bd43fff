package measure

import "testing"

// The primary row of a cell has the most frequent limit of its trials, with its share of all usable trials.
func TestLimit(t *testing.T) {
	run := Run{Cells: []Cell{
		{ID: "a", Group: "g", Primary: "packet_rate"}, {ID: "b", Group: "g", Primary: "packet_rate", Baseline: "a"},
	}}
	log := &Log{}
	for block, limit := range []string{"path", "sender", "path", "", "path"} {
		for _, cell := range []string{"a", "b"} {
			one := Trial{Block: block, Cell: cell, Metrics: map[string]float64{"packet_rate": 1e5, "loss": 0}}
			if cell == "a" {
				one.Limit = limit
			}
			log.Trials = append(log.Trials, one)
		}
	}
	log.Trials = append(log.Trials, Trial{Block: 5, Cell: "a", Limit: "sender", Failed: "x"})
	for _, r := range Analyze(run, log).Rows {
		want, share := "", 0.0
		if r.Cell.ID == "a" && r.Metric == "packet_rate" {
			want, share = "path", 0.6
		}
		if r.Limit != want || r.LimitShare != share {
			t.Errorf("%s of %s: limit %q by %v of the trials, want %q, %v", r.Metric, r.Cell.ID, r.Limit, r.LimitShare, want,
				share)
		}
	}
}
