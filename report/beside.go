package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// besideTitle is the title of the section of [Reading.Beside].
const besideTitle = "Effect of the mix"

// Beside returns the section about the effect of the members of mixes on each other: each member against the same pairs
// alone, for each stack. It returns false if nothing was measured alone.
func (v *Reading) Beside() (Section, bool) {
	s := Section{Title: besideTitle}
	var tables []Block
	for _, g := range v.Groups {
		texts, t, floors := v.besideGroup(g)
		for _, text := range texts {
			s.Blocks = append(s.Blocks, Block{Text: text})
		}
		if t != nil {
			tables = append(tables, Block{Table: t}, Block{Text: "Floor: " + floors + ".", Tone: Quiet})
		}
	}
	if s.Blocks == nil {
		return s, false
	}
	if tables == nil {
		return s, true
	}
	s.Blocks = append(append(s.Blocks, tables...), Block{
		Text: "In each block every member of a mix was also measured alone: the same stack, the same pairs of the same " +
			"lab, while the pairs of the other members were silent. The floor is computed from the floors of both.",
		Tone: Quiet,
	})
	return s, true
}

// besideGroup returns a sentence and some rows for each stack, about the effect of a mix on one of its members, and the
// floors.
func (v *Reading) besideGroup(g *Group) (texts []string, t *Table, floors string) {
	t = &Table{
		Caption: g.Heading(),
		Columns: heads("", "metric", "alone", "in the mix", "difference", "change", "95 % interval", "verdict"),
	}
	var known []string
	for _, c := range g.Cells {
		list := besideRows(v.Analysis.Beside, c)
		compared := false
		for _, b := range list {
			point, interval := Change(&b.Row)
			if point == "" {
				continue
			}
			alone, difference := v.aloneValue(g, b)
			row := []Field{
				{},
				{Text: Label(b.About)},
				{Text: alone},
				{},
				{Text: difference},
				{Text: point},
				{Text: interval},
				Judged(&b.Row, b.About, true),
			}
			if floor := Label(b.About) + " " + noise(b.Floor, b.About); !slices.Contains(known, floor) {
				known = append(known, floor)
			}
			if r := g.Row(c, b.Metric); r != nil {
				row[3].Text = Number(r.Value, r.Unit)
			}
			if row[0].Text = StackName(c); b.Metric == c.Primary {
				texts, compared = append(texts, besideText(b, point, interval)), true
			}
			t.Rows = append(t.Rows, row)
		}
		if alone := v.alone(c); alone != nil && !compared {
			texts = append(texts, v.notBeside(c, alone))
		}
	}
	if t.Rows == nil {
		return texts, nil, ""
	}
	return texts, t, strings.Join(known, ", ")
}

// alone returns the cell that measures a member of a mix alone; nil if the run has none.
func (v *Reading) alone(c *measure.Cell) *measure.Cell {
	i := slices.IndexFunc(v.Run.Cells, func(x measure.Cell) bool { return x.Alone == c.ID })
	if i < 0 {
		return nil
	}
	return &v.Run.Cells[i]
}

// notBeside returns the sentence about a member that has no comparison with itself alone in its primary metric:
// "bridge: udp-rr mixed with tcp-stream(message=131072): latency p50 is not compared with alone: too few samples or
// generations."
func (v *Reading) notBeside(c, alone *measure.Cell) string {
	why := "too few samples or generations"
	if f, failed := v.Failed[alone.ID]; failed {
		why = notMeasured(f, "alone")
	}
	if f, failed := v.Failed[c.ID]; failed {
		why = notMeasured(f, "in the mix")
	}
	if slices.ContainsFunc(v.Analysis.Rows, func(r measure.Row) bool {
		return r.Cell.Lab == c.Lab && r.Verdict == measure.Leaks
	}) {
		why = "its stack leaks"
	}
	m, _ := v.known.Lookup(c.Primary)
	return fmt.Sprintf("%s: %s %s: %s is not compared with alone: %s.", StackName(c), Printable(c.Workload), mixedWith(c),
		Label(m), why)
}

func notMeasured(f measure.FailedCell, where string) string {
	if f.Trials == 0 {
		return "it was not measured " + where
	}
	return "it failed " + where + ": " + Printable(f.Reason)
}

// besideRows returns the comparisons of a cell with itself alone that tables show: the primary metric first, then the
// median and the 99th percentile of latency.
func besideRows(all []measure.Direct, c *measure.Cell) []measure.Direct {
	var list []measure.Direct
	for _, b := range all {
		switch {
		case b.Cell.ID != c.ID:
		case b.Metric == c.Primary:
			list = slices.Insert(list, 0, b)
		case b.About.Kind == measure.KindQuantile && (b.About.Quantile == 0.5 || b.About.Quantile == 0.99):
			list = append(list, b)
		}
	}
	return list
}

// besideText returns the sentence about the effect of the others on a member: "bridge: udp-rr mixed with
// tcp-stream(message=131072): latency p50 +210 % compared with alone (95 % interval 190 to 232 %): slower."
func besideText(b measure.Direct, point, interval string) string {
	said := Judged(&b.Row, b.About, false)
	return fmt.Sprintf("%s: %s %s: %s %s compared with alone (95 %% interval %s): %s.", StackName(b.Cell),
		Printable(b.Cell.Workload), mixedWith(b.Cell), Label(b.About), point, interval, said.Text)
}

// aloneValue returns the value of a member alone, and the difference that the others add to it. Both are computed from
// its value in the mix and the ratio of the two.
func (v *Reading) aloneValue(g *Group, b measure.Direct) (alone, difference string) {
	r := g.Row(b.Cell, b.Metric)
	switch {
	case r == nil:
		return "", ""
	case b.HasRatio && b.Estimate.Ratio > 0:
		e := b.Estimate
		x := r.Value / e.Ratio
		difference = Difference(x, e.Ratio, (e.Hi-e.Lo)/2, b.Unit)
		if e.Ratio > 1 && strings.ContainsAny(difference, "123456789") {
			difference = "+" + difference
		}
		return Number(x, b.Unit), difference
	case b.HasDifference:
		return Number(max(0, r.Value-b.Difference.Points), b.Unit), ""
	}
	return "", ""
}
