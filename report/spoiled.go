package report

import (
	"fmt"
	"slices"

	"github.com/nettoll/nettoll/measure"
)

// spoiled says how trials were judged from which other programs took the CPU, and how many blocks were set aside.
func (v *Reading) spoiled() string {
	asked := v.Run.Design.Spoiled
	switch {
	case asked > 0:
	case slices.ContainsFunc(v.Run.Vocabulary().All(), func(m measure.Metric) bool {
		return m.Name == measure.WaitMetric
	}):
		return "No block was set aside because other programs took the CPU: the experiment did not ask for it."
	default:
		return "These records do not say how long threads waited for a CPU: no block was set aside because other programs " +
			"took it."
	}
	text := fmt.Sprintf("A trial is spoiled if one of its threads waited for a CPU that another program had, and longer "+
		"than is usual in its group by more than %s of the trial. Its block is then set aside for the whole group. "+
		"Percentiles other than the median, which come from many blocks, keep it.",
		measure.Format(asked, measure.UnitShare))
	blocks, hit, aside := 0, 0, 0
	for _, s := range v.Analysis.Spoiled {
		blocks, hit, aside = blocks+s.Blocks, hit+s.Hit, aside+s.Aside
	}
	if blocks > 0 {
		text += fmt.Sprintf(" %d of %s had a spoiled trial, and %d were set aside.", hit,
			Count(blocks, "block", "blocks"), aside)
	}
	if slices.ContainsFunc(v.Run.Cells, func(c measure.Cell) bool { return c.SharesCPUs }) {
		text += " Cells with more threads than CPUs are not judged: their threads wait for each other."
	}
	return text
}
