package report

import (
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
)

// What became of spoiled trials is said under how the run was measured.
func TestSpoiled(t *testing.T) {
	watched := []measure.Metric{{
		Name: measure.WaitMetric, Unit: measure.UnitShare, Better: measure.LowerBetter, Kind: measure.KindShare,
	}}
	for _, tt := range []struct {
		name     string
		run      measure.Run
		analysis measure.Analysis
		want     []string
		not      string
	}{
		{
			name: "old records", run: measure.Run{},
			want: []string{"These records do not say how long threads waited for a CPU: no block was set aside"},
		},
		{name: "not asked for", run: measure.Run{Metrics: watched}, want: []string{"the experiment did not ask for it"}},
		{
			name: "two groups",
			run:  measure.Run{Metrics: watched, Design: measure.Design{Spoiled: 0.05}},
			analysis: measure.Analysis{Spoiled: []measure.Spoiled{
				{Group: "g", Blocks: 40, Hit: 3, Aside: 2}, {Group: "h", Blocks: 40, Hit: 20, Busy: true},
			}},
			want: []string{"by more than 5 % of the trial", "23 of 80 blocks had a spoiled trial, and 2 were set aside."},
			not:  "more threads than CPUs",
		},
		{
			name: "threads that share CPUs",
			run: measure.Run{
				Metrics: watched, Design: measure.Design{Spoiled: 0.05}, Cells: []measure.Cell{{SharesCPUs: true}},
			},
			want: []string{"more threads than CPUs are not judged"},
			not:  "had a spoiled trial",
		},
	} {
		v := &Reading{Run: tt.run, Analysis: tt.analysis}
		got := v.spoiled()
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", tt.name, got, want)
			}
		}
		if tt.not != "" && strings.Contains(got, tt.not) {
			t.Errorf("%s: %q has %q", tt.name, got, tt.not)
		}
	}
}
