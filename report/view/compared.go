package view

import (
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/chart"
)

// ComparedFigures writes the figures of a comparison into a directory, as [Figures] does for a run.
func ComparedFigures(dir string, l report.Comparisons, p Pictures) ([]string, error) {
	return p.put(dir, chart.DrawCompared(l.Comparison(false)).All, l[0].New.Run.Started)
}
