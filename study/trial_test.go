package study

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
)

// Every generation counts, also if each has a single block.
func TestEveryGenerationCounts(t *testing.T) {
	run := measure.Run{Cells: []measure.Cell{
		{ID: "base", Primary: "m"}, {ID: "twin", Baseline: "base", Twin: true}, {ID: "other", Baseline: "base"},
	}}
	var log measure.Log
	for g := 1; g <= 3; g++ {
		log.Blocks = append(log.Blocks, measure.BlockFacts{Generation: g, Block: g - 1})
		for _, c := range run.Cells {
			log.Trials = append(log.Trials, measure.Trial{
				Generation: g, Block: g - 1, Cell: c.ID, Metrics: map[string]float64{"m": 1},
			})
		}
	}
	var r lengthResult
	r.add(run, log)
	want := [][]float64{{0}, {0}, {0}}
	if diff := cmp.Diff([][][]float64{want, want}, [][][]float64{r.twin, r.other}); diff != "" {
		t.Errorf("log ratios of the twin and the other stack (-want +got):\n%s", diff)
	}
}
