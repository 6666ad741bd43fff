package page

import (
	"fmt"
	"io"
	"strings"

	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/chart"
)

// WriteCompared writes the changes from one run to others as one page, as [Write] does for a run.
func WriteCompared(w io.Writer, l report.Comparisons, all bool) error {
	v := l.Comparison(all)
	p := &pageHTML{charts: chart.DrawCompared(v)}
	p.document(compared(l, v))
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write html: %w", err)
	}
	return nil
}

// compared returns the document of a comparison.
func compared(l report.Comparisons, v report.Comparison) report.Document {
	var names []string
	for _, c := range l {
		names = append(names, c.NewDir)
	}
	d := report.Document{
		Title: report.Printable(strings.Join(names, ", ") + " against " + l[0].OldDir), Answer: v.Answer,
		Subtitle: "A comparison of ratios to the baseline",
	}
	if l[0].Absolute {
		d.Subtitle = "A comparison of values"
	}
	for _, s := range v.Standing {
		d.Standing = append(d.Standing, report.Block{Text: s, Tone: report.Bad})
	}
	for _, s := range v.Subject {
		d.Sure = append(d.Sure, report.Block{Text: s})
	}
	for _, g := range v.Groups {
		part := report.Part{Title: g.Heading, ID: "group-" + g.Slug, Figures: g.Slug}
		for _, grid := range g.Grids {
			part.Tables = append(part.Tables, report.Block{Table: grid.Table})
			if len(grid.Notes) > 0 {
				part.Tables = append(part.Tables, report.Block{Text: strings.Join(grid.Notes, "; "), Tone: report.Quiet})
			}
		}
		d.Sections = append(d.Sections, part)
	}
	if len(v.Doubts) > 0 {
		d.Sections = append(d.Sections, report.Part{
			Title: "Doubts", ID: "doubts", Lists: report.Items(v.Doubts, report.Doubt),
		})
	}
	d.Sections = append(d.Sections, report.Part{
		Title: "Runs", ID: "runs", Lists: report.Items(v.Origins, report.Plain),
	})
	return d
}
