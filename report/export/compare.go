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

// csvColumns are the columns of a comparison's CSV. New ones are added at the end.
func csvColumns(kinds []string) []string {
	return append(cellColumns(kinds),
		"metric", "unit", "old_value", "new_value", "drift", "old_ratio", "new_ratio", "ratio", "ratio_lo", "ratio_hi",
		"verdict",
		"old_blocks", "new_blocks", "old_generations", "new_generations",
		"old_difference", "new_difference", "difference", "difference_lo", "difference_hi", "adjusted_lo", "adjusted_hi",
		"floor",
		"primary", "baseline", "parameters", "implementation",
		"value_ratio", "value_ratio_lo", "value_ratio_hi", "value_difference", "value_difference_lo", "value_difference_hi",
		"shift", "compared", "old_run", "new_run", "shift_unsure", "old_load", "new_load")
}

// ComparedCSV writes a row for each cell and metric, as RFC 4180 with a header. Numbers are bare and in base units;
// unknown ones are empty.
//
//	old_value, new_value, drift      values, and new over old, which also depends on the machine
//	old_ratio, new_ratio             cell / baseline in each run; ratio, …_lo, …_hi the new one over the old one and its
//	                                 95 % interval
//	old_difference, new_difference   cell − baseline of a share or count; difference, …_lo, …_hi the new one less the old
//	                                 one
//	adjusted_lo, adjusted_hi         the interval at the level of Holm's procedure, as ratios or as differences
//	floor                            of both runs together, as a share (0.006 = 0.6 %) or in the unit of a difference
//	value_ratio, value_difference    the new value over or less the old one, with its 95 % interval over generations
//	shift                            a baseline's own change beyond the floor: slower, faster, higher or lower
//	shift_unsure                     the same, if what else used the CPUs may explain it
//	old_load, new_load               what other programs and the hypervisor took, in cores
//	compared                         "ratios", or "values": then ratio and difference are those of the values
//	old_run, new_run                 the directories
func ComparedCSV(w io.Writer, l report.Comparisons, all bool) error {
	out, kinds := newSheet(w), l[0].New.Run.Kinds()
	if err := out.Write(csvColumns(kinds)); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	for _, c := range l {
		for i := range c.Changes {
			x := &c.Changes[i]
			if !x.Primary && !all {
				continue
			}
			fields := append(changeFields(newChangeLine(x), kinds), compared(c), c.OldDir, c.NewDir, string(x.Unsure))
			fields = append(fields, optional(known(x.OldLoad.Cores()), known(x.NewLoad.Cores()))...)
			if err := out.Write(fields); err != nil {
				return fmt.Errorf("write csv: %w", err)
			}
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
		[]string{strconv.FormatBool(l.Primary), c.Baseline, pairs(c.Params), pairs(c.Implementation)},
		optional(l.ValueRatio, l.ValueRatioLo, l.ValueRatioHi, l.ValueDifference, l.ValueDifferenceLo, l.ValueDifferenceHi),
		[]string{string(l.Shift)})
}

// compared returns the kind of the compared quantities.
func compared(c *report.Compared) string {
	if c.Absolute {
		return "values"
	}
	return "ratios"
}

// changeLine is a change in JSON: the fields of a row, with the change as their ratio, and those of both runs.
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

	ValueRatio        *float64        `json:"value_ratio,omitempty"`
	ValueRatioLo      *float64        `json:"value_ratio_lo,omitempty"`
	ValueRatioHi      *float64        `json:"value_ratio_hi,omitempty"`
	ValueDifference   *float64        `json:"value_difference,omitempty"`
	ValueDifferenceLo *float64        `json:"value_difference_lo,omitempty"`
	ValueDifferenceHi *float64        `json:"value_difference_hi,omitempty"`
	Shift             measure.Verdict `json:"shift,omitempty"`
	ShiftUnsure       measure.Verdict `json:"shift_unsure,omitempty"` // what else used the CPUs may explain the shift
	Gates             []gateLine      `json:"gates,omitempty"`
	NewRun            string          `json:"new_run,omitempty"` // directory; in JSON lines
}

// gateLine is the result of a gate of --fail-on for a change.
type gateLine struct {
	Gate   string `json:"gate"`
	Result string `json:"result"` // "passed", "failed", or "undecided"
}

func newGateLine(f report.Found) gateLine {
	return gateLine{f.Gate.Text, map[measure.Finding]string{
		measure.Holds: "failed", measure.DoesNotHold: "passed", measure.CannotTell: "undecided",
	}[f.Finding]}
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
	l.Type, l.Primary, l.Shift, l.ShiftUnsure = "change", c.Primary, c.Shift, c.Unsure
	own := newEffect(c.Own)
	l.ValueRatio, l.ValueRatioLo, l.ValueRatioHi = own.Ratio, own.RatioLo, own.RatioHi
	l.ValueDifference, l.ValueDifferenceLo, l.ValueDifferenceHi = own.Difference, own.DifferenceLo, own.DifferenceHi
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

// comparedRun is a run of a comparison in JSON.
type comparedRun struct {
	Dir string `json:"dir"`
	runLine
}

type obstacleLine struct {
	What  string   `json:"what"`
	Old   string   `json:"old"`
	New   string   `json:"new"`
	Cells []string `json:"cells,omitempty"`
}

// newDirectChange returns the line of the change of a ratio of two stacks.
func newDirectChange(d *measure.DirectChange) changeLine {
	c := measure.Change{Old: &d.Old.Row, New: &d.New.Row, Primary: true, Row: d.Row}
	l := newChangeLine(&c)
	l.Type, l.Baseline, l.Over = "direct", "", d.Over.ID
	l.OldValue, l.NewValue, l.Drift = nil, nil, nil
	return l
}

type comparedObject struct {
	V         int            `json:"v"`
	Compared  string         `json:"compared"` // "ratios" or "values"
	Old       comparedRun    `json:"old"`
	New       comparedRun    `json:"new"`
	Changes   []changeLine   `json:"changes"`
	Direct    []changeLine   `json:"direct,omitempty"`
	Obstacles []obstacleLine `json:"obstacles,omitempty"` // the differences between the runs
	OnlyOld   []string       `json:"only_old,omitempty"`
	OnlyNew   []string       `json:"only_new,omitempty"`
	Warnings  []string       `json:"warnings,omitempty"`
}

// ComparedJSON writes one object: both runs, the changes, and everything needed to judge them. With several newer runs,
// it is an object whose key "comparisons" has such an object for each.
func ComparedJSON(w io.Writer, l report.Comparisons, all bool) error {
	list := make([]comparedObject, len(l))
	for i, c := range l {
		list[i] = newComparedObject(c, all)
	}
	e := NewEncoder(w)
	e.SetIndent("", "  ")
	var out any = struct {
		V           int              `json:"v"`
		Comparisons []comparedObject `json:"comparisons"`
	}{measure.Version, list}
	if len(list) == 1 {
		out = list[0]
	}
	if err := e.Encode(out); err != nil {
		return fmt.Errorf("write json: %w", err)
	}
	return nil
}

// ComparedJSONL writes what [ComparedJSON] writes as lines: for each newer run a line of type "comparison", and then
// one for each change ("change", "direct"), each difference between the runs ("obstacle") and each warning. All of them
// name the newer run.
func ComparedJSONL(w io.Writer, l report.Comparisons, all bool) error {
	out := NewEncoder(w)
	for _, c := range l {
		for _, line := range comparedLines(newComparedObject(c, all)) {
			if err := out.Encode(line); err != nil {
				return fmt.Errorf("write jsonl: %w", err)
			}
		}
	}
	return nil
}

func comparedLines(o comparedObject) []any {
	dir := o.New.Dir
	list := []any{struct {
		Type     string      `json:"type"`
		V        int         `json:"v"`
		Compared string      `json:"compared"`
		Old      comparedRun `json:"old"`
		New      comparedRun `json:"new"`
		OnlyOld  []string    `json:"only_old,omitempty"`
		OnlyNew  []string    `json:"only_new,omitempty"`
		NewRun   string      `json:"new_run"`
	}{"comparison", o.V, o.Compared, o.Old, o.New, o.OnlyOld, o.OnlyNew, dir}}
	for _, c := range slices.Concat(o.Changes, o.Direct) {
		c.NewRun = dir
		list = append(list, c)
	}
	for _, x := range o.Obstacles {
		list = append(list, struct {
			Type string `json:"type"`
			obstacleLine
			NewRun string `json:"new_run"`
		}{"obstacle", x, dir})
	}
	for _, text := range o.Warnings {
		list = append(list, struct {
			Type   string `json:"type"`
			Text   string `json:"text"`
			NewRun string `json:"new_run"`
		}{"warning", text, dir})
	}
	return list
}

func newComparedObject(c *report.Compared, all bool) comparedObject {
	side := func(dir string, d report.Data) comparedRun {
		d.Analysis.Warnings = nil // the key "warnings" of the object has those of both runs
		return comparedRun{dir, newRunLine(&d)}
	}
	out := comparedObject{
		V: measure.Version, Compared: compared(c), Old: side(c.OldDir, *c.Old), New: side(c.NewDir, *c.New),
		Changes: []changeLine{},
		OnlyOld: c.OnlyOld, OnlyNew: c.OnlyNew, Warnings: c.Doubts(),
	}
	for i := range c.Changes {
		x := &c.Changes[i]
		if !x.Primary && !all {
			continue
		}
		line := newChangeLine(x)
		for _, f := range c.Found {
			if f.Change == x {
				line.Gates = append(line.Gates, newGateLine(f))
			}
		}
		out.Changes = append(out.Changes, line)
	}
	direct := c.Direct()
	for i := range direct {
		out.Direct = append(out.Direct, newDirectChange(&direct[i]))
	}
	for _, o := range c.Obstacles {
		out.Obstacles = append(out.Obstacles, obstacleLine{o.What, o.Old, o.New, o.Cells})
	}
	return out
}
