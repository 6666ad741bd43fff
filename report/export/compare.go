package export

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// csvColumns are those of a comparison's CSV; new ones are added at the end.
func csvColumns(kinds []string) []string {
	return append(cellColumns(kinds),
		"metric", "unit", "old_value", "new_value", "drift", "old_ratio", "new_ratio", "ratio", "ratio_lo", "ratio_hi",
		"verdict",
		"old_blocks", "new_blocks", "old_generations", "new_generations",
		"old_difference", "new_difference", "difference", "difference_lo", "difference_hi", "adjusted_lo", "adjusted_hi",
		"floor",
		"primary", "baseline", "parameters", "implementation")
}

// ComparedCSV writes a row for each cell and metric, RFC 4180 with a header. Numbers are bare and in base units; what
// is not known is empty.
//
//	old_value, new_value, drift      values, and new over old: what the machine has a part in
//	old_ratio, new_ratio             cell / baseline in each run; ratio, …_lo, …_hi the new one over the old one and its
//	                                 95 % interval
//	old_difference, new_difference   cell − baseline of a share or count; difference, …_lo, …_hi the new one less the old
//	                                 one
//	adjusted_lo, adjusted_hi         the interval at the level of Holm's procedure, as ratios or as differences
//	floor                            of both runs together, as a share (0.006 = 0.6 %) or in the unit of a difference
func ComparedCSV(w io.Writer, c *report.Compared, all bool) error {
	out, kinds := newSheet(w), c.New.Run.Kinds()
	if err := out.Write(csvColumns(kinds)); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	for i := range c.Changes {
		x := &c.Changes[i]
		if !x.Primary && !all {
			continue
		}
		if err := out.Write(changeFields(newChangeLine(x), kinds)); err != nil {
			return fmt.Errorf("write csv: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	return nil
}

func changeFields(l changeLine, kinds []string) []string {
	c := l.cell
	return slices.Concat(cellFields(c, kinds), []string{l.Metric, l.Unit},
		optional(l.OldValue, l.NewValue, l.Drift, l.OldRatio, l.NewRatio), l.ratios(),
		[]string{
			string(l.Verdict), strconv.Itoa(l.OldBlocks), strconv.Itoa(l.NewBlocks), strconv.Itoa(l.OldGenerations),
			strconv.Itoa(l.NewGenerations),
		},
		optional(l.OldDifference, l.NewDifference), l.differences(), optional(l.AdjustedLo, l.AdjustedHi, l.Floor),
		[]string{strconv.FormatBool(l.Primary), c.Baseline, pairs(c.Params), pairs(c.Implementation)})
}

// changeLine is a change in JSON: the fields of a row, whose ratio is that of the ratios, and what both runs say.
type changeLine struct {
	plainRow
	cell           *measure.Cell
	OldValue       *float64 `json:"old_value,omitempty"`
	NewValue       *float64 `json:"new_value,omitempty"`
	Drift          *float64 `json:"drift,omitempty"`
	OldRatio       *float64 `json:"old_ratio,omitempty"`
	NewRatio       *float64 `json:"new_ratio,omitempty"`
	OldDifference  *float64 `json:"old_difference,omitempty"`
	NewDifference  *float64 `json:"new_difference,omitempty"`
	OldBlocks      int      `json:"old_blocks"`
	NewBlocks      int      `json:"new_blocks"`
	OldGenerations int      `json:"old_generations"`
	NewGenerations int      `json:"new_generations"`
	Worse          bool     `json:"worse"`
}

// MarshalJSON writes the line with a key for each kind of parts.
func (l changeLine) MarshalJSON() ([]byte, error) {
	type plain changeLine
	b, err := json.Marshal(plain(l))
	if err != nil {
		return nil, err
	}
	return measure.WithParts(b, l.parts)
}

func newChangeLine(c *measure.Change) changeLine {
	l := changeLine{plainRow: plainRow(newRowLine(c.Row)), cell: c.Cell, Drift: known(c.Drift()), Worse: c.Worse()}
	l.Type, l.Primary = "change", c.Primary
	of := func(r *measure.Row) (value, ratio, difference *float64, blocks, generations int) {
		if r == nil {
			return nil, nil, nil, 0, 0
		}
		e := newEffect(r.Effect)
		return known(r.Value), e.Ratio, e.Difference, r.Blocks, r.Generations
	}
	l.OldValue, l.OldRatio, l.OldDifference, l.OldBlocks, l.OldGenerations = of(c.Old)
	l.NewValue, l.NewRatio, l.NewDifference, l.NewBlocks, l.NewGenerations = of(c.New)
	return l
}

// ComparedJSON writes one object: both runs, the changes, and everything that has to be known beside them.
func ComparedJSON(w io.Writer, c *report.Compared, all bool) error {
	type run struct {
		Dir string `json:"dir"`
		runLine
	}
	type obstacle struct {
		What  string   `json:"what"`
		Old   string   `json:"old"`
		New   string   `json:"new"`
		Cells []string `json:"cells,omitempty"`
	}
	side := func(dir string, d report.Data) run {
		d.Analysis.Warnings = nil // the doubts about both runs stand below
		return run{dir, newRunLine(&d)}
	}
	out := struct {
		V         int          `json:"v"`
		Old       run          `json:"old"`
		New       run          `json:"new"`
		Changes   []changeLine `json:"changes"`
		Obstacles []obstacle   `json:"obstacles,omitempty"`
		OnlyOld   []string     `json:"only_old,omitempty"`
		OnlyNew   []string     `json:"only_new,omitempty"`
		Warnings  []string     `json:"warnings,omitempty"`
	}{
		V: measure.Version, Old: side(c.OldDir, *c.Old), New: side(c.NewDir, *c.New),
		Changes: []changeLine{},
		OnlyOld: c.OnlyOld, OnlyNew: c.OnlyNew, Warnings: c.Doubts(),
	}
	for i := range c.Changes {
		if c.Changes[i].Primary || all {
			out.Changes = append(out.Changes, newChangeLine(&c.Changes[i]))
		}
	}
	for _, o := range c.Obstacles {
		out.Obstacles = append(out.Obstacles, obstacle(o))
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return fmt.Errorf("write json: %w", err)
	}
	return nil
}
