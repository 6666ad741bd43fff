package measure

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Containers are summed up each by itself, by their host and their name.
func TestContainerFigures(t *testing.T) {
	var labs []LabRecord
	for g, x := range []float64{3, 1, 2} {
		labs = append(labs, LabRecord{
			Generation: g, Lab: "a", Metrics: map[string]float64{"setup_time": 100},
			Containers: []ContainerMetrics{
				{Host: "host1", Name: "src0", Metrics: map[string]float64{"setup_time": x}},
				{Host: "host2", Name: "src0", Metrics: map[string]float64{"setup_time": 10 * x}},
			},
		}, LabRecord{Generation: g, Lab: "b", Metrics: map[string]float64{"setup_time": 1}})
	}
	want := []LabFigure{
		{
			Lab: "a", Container: "host1/src0", Metric: "setup_time", Unit: UnitSecond, Value: 2, Least: 1, Most: 3,
			Generations: 3,
		},
		{
			Lab: "a", Container: "host2/src0", Metric: "setup_time", Unit: UnitSecond, Value: 20, Least: 10, Most: 30,
			Generations: 3,
		},
	}
	if diff := cmp.Diff(want, ContainerFigures(Version2(), labs)); diff != "" {
		t.Errorf("figures of containers (-want +got):\n%s", diff)
	}
}

// A lab that was built once more is not a second observation of its generation.
func TestLabFigures(t *testing.T) {
	var labs []LabRecord
	for g, x := range []float64{3, 1, 2} {
		labs = append(labs, LabRecord{
			Generation: g, Lab: "a",
			Metrics: map[string]float64{"setup_time": x, "rules_load_time": 10 * x},
		})
		if g == 1 {
			labs = append(labs, LabRecord{
				Generation: g, Lab: "a", Rebuilt: true, Metrics: map[string]float64{"setup_time": 100},
			})
		}
	}
	want := []LabFigure{
		{Lab: "a", Metric: "setup_time", Unit: UnitSecond, Value: 2, Least: 1, Most: 3, Generations: 3},
		{Lab: "a", Metric: "rules_load_time", Unit: UnitSecond, Value: 20, Least: 10, Most: 30, Generations: 3},
	}
	if diff := cmp.Diff(want, LabFigures(Version2(), labs, false)); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	want = []LabFigure{{
		Lab: "a", Metric: "setup_time", Unit: UnitSecond, Value: 100, Least: 100, Most: 100,
		Generations: 1,
	}}
	if diff := cmp.Diff(want, LabFigures(Version2(), labs, true)); diff != "" {
		t.Errorf("figures of the lab that was built once more (-want +got):\n%s", diff)
	}
}
