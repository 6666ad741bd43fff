package export

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

type runLine struct {
	Type     string            `json:"type"` // "run"
	V        int               `json:"v"`
	Name     string            `json:"name"`
	Started  time.Time         `json:"started"`
	Design   measure.Design    `json:"design"`
	Versions map[string]string `json:"versions,omitempty"`
	Facts    map[string]any    `json:"facts,omitempty"`
	// of the other machines, if hosts are on several
	Machines    []measure.MachineFacts `json:"machines,omitempty"`
	Blocks      int                    `json:"blocks"`
	Generations int                    `json:"generations"`
	Trials      int                    `json:"trials"`
	Measured    float64                `json:"measured"`        // s
	Ended       string                 `json:"ended,omitempty"` // as in [CSV]
	// sentences that every view begins with: the run did not end, or its records were changed
	Standing []string `json:"standing,omitempty"`
}

type rowLine struct {
	Type           string            `json:"type"` // "row"
	Cell           string            `json:"cell"`
	Baseline       string            `json:"baseline,omitempty"`
	Twin           bool              `json:"twin,omitempty"`
	Probe          string            `json:"probe,omitempty"`
	Unprobed       string            `json:"unprobed,omitempty"`
	Group          string            `json:"group"`
	parts          []measure.Part    // each has a key, its kind
	Placement      string            `json:"placement"`
	Pairs          int               `json:"pairs"`
	Family         string            `json:"family"`
	Affinity       string            `json:"affinity"`
	Idle           string            `json:"idle,omitempty"`
	Workload       string            `json:"workload"`
	Params         map[string]string `json:"params,omitempty"`
	Mix            []string          `json:"mix,omitempty"`
	LabPairs       int               `json:"lab_pairs,omitempty"`
	Alone          string            `json:"alone,omitempty"` // for a member of a mix alone: its cell in the mix
	Implementation map[string]string `json:"implementation,omitempty"`
	Enforced       string            `json:"enforced,omitempty"`
	Rights         string            `json:"rights,omitempty"` // of root in its containers, as in [CSV]
	Metric         string            `json:"metric"`
	Unit           string            `json:"unit"`
	Primary        bool              `json:"primary"`
	Value          *float64          `json:"value,omitempty"`
	ValueLo        *float64          `json:"value_lo,omitempty"`
	ValueHi        *float64          `json:"value_hi,omitempty"`
	Over           string            `json:"over,omitempty"` // another cell than the baseline, to compare with
	effect
	AdjustedLo  *float64        `json:"adjusted_lo,omitempty"`
	AdjustedHi  *float64        `json:"adjusted_hi,omitempty"`
	Floor       *float64        `json:"floor,omitempty"`
	Moved       float64         `json:"moved,omitempty"` // by other programs, see [measure.Run.Moved]; as the floor
	Spread      *float64        `json:"spread,omitempty"`
	Limit       string          `json:"limit,omitempty"`
	LimitShare  float64         `json:"limit_share,omitempty"`
	Verdict     measure.Verdict `json:"verdict"`
	Blocks      int             `json:"blocks"`
	Generations int             `json:"generations"`
}

// effect is the effect of one cell against another in JSON and CSV; nil is unknown.
type effect struct {
	Ratio        *float64 `json:"ratio,omitempty"`
	RatioLo      *float64 `json:"ratio_lo,omitempty"`
	RatioHi      *float64 `json:"ratio_hi,omitempty"`
	Difference   *float64 `json:"difference,omitempty"`
	DifferenceLo *float64 `json:"difference_lo,omitempty"`
	DifferenceHi *float64 `json:"difference_hi,omitempty"`
}

func newEffect(e measure.Effect) effect {
	switch {
	case e.HasRatio:
		return effect{Ratio: known(e.Estimate.Ratio), RatioLo: known(e.Estimate.Lo), RatioHi: known(e.Estimate.Hi)}
	case e.HasDifference:
		d := e.Difference
		return effect{Difference: known(d.Points), DifferenceLo: known(d.Lo), DifferenceHi: known(d.Hi)}
	}
	return effect{}
}

// ratios and differences return the columns of CSV.
func (e effect) ratios() []string { return optional(e.Ratio, e.RatioLo, e.RatioHi) }

func (e effect) differences() []string { return optional(e.Difference, e.DifferenceLo, e.DifferenceHi) }

// plainRow is a row without its methods, so that encoding it does not call them.
type plainRow rowLine

// MarshalJSON writes the line with a key for each kind of parts.
func (l rowLine) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(plainRow(l))
	if err != nil {
		return nil, err
	}
	return measure.WithParts(b, l.parts)
}

type labLine struct {
	Type        string  `json:"type"` // "lab"
	Lab         string  `json:"lab"`
	Container   string  `json:"container,omitempty"` // as in [CSV]
	Metric      string  `json:"metric"`
	Unit        string  `json:"unit"`
	Value       float64 `json:"value"` // the median over generations
	Least       float64 `json:"least"`
	Most        float64 `json:"most"`
	Generations int     `json:"generations"`
	// the lab was built once more, because a program had died
	Rebuilt bool `json:"rebuilt,omitempty"`
}

func newLabLine(f measure.LabFigure, rebuilt bool) labLine {
	return labLine{"lab", f.Lab, f.Container, f.Metric, f.Unit, f.Value, f.Least, f.Most, f.Generations, rebuilt}
}

type probeLine struct {
	Type        string `json:"type"` // "probe"
	Cell        string `json:"cell"` // the cell with the probe
	Probe       string `json:"probe"`
	Unprobed    string `json:"unprobed"`
	Metric      string `json:"metric"`
	Unit        string `json:"unit"`
	effect             // with / without, with − without
	Blocks      int    `json:"blocks"`
	Generations int    `json:"generations"`
}

type spoiledLine struct {
	Type   string `json:"type"` // "spoiled"
	Group  string `json:"group"`
	Blocks int    `json:"blocks"`
	Hit    int    `json:"hit"`
	Aside  int    `json:"aside"`
	// why none was set aside
	Busy   bool                `json:"busy,omitempty"`
	Uneven bool                `json:"uneven,omitempty"`
	Trials map[string]ofTrials `json:"trials"` // by cell
}

type ofTrials struct {
	Spoiled int     `json:"spoiled"`
	Of      int     `json:"of"`
	P       float64 `json:"p"`
	Uneven  bool    `json:"uneven,omitempty"`
}

func newSpoiledLine(s measure.Spoiled) spoiledLine {
	line := spoiledLine{
		Type: "spoiled", Group: s.Group, Blocks: s.Blocks, Hit: s.Hit, Aside: s.Aside, Busy: s.Busy, Uneven: s.Uneven(),
		Trials: map[string]ofTrials{},
	}
	for _, c := range s.Cells {
		line.Trials[c.Cell] = ofTrials{Spoiled: c.Spoiled, Of: c.Trials, P: c.P, Uneven: c.Uneven}
	}
	return line
}

type failedLine struct {
	Type   string `json:"type"` // "failed"
	Cell   string `json:"cell"`
	Reason string `json:"reason"`
	Trials int    `json:"trials"`
}

// JSONL writes one JSON object a line. The field type distinguishes them, in this order: the "run" (name, design,
// versions, facts about the machine, and how much was measured); a "row" for each cell and metric, with the fields of
// [CSV]; a "direct" for each stack against another one; a "probe" for each probed cell, with the cost of the probe; a
// "beside" for each member of a mix and metric, with the effect of the other members; a "memory" for each group, with
// how long its noise is remembered; a "lab" for the cost of each lab in each metric, and for that of each container; a
// "spoiled" for each group whose trials were judged (its spoiled blocks, those set aside, and the spoiled trials of
// each cell); and last the "failed" cells, and each "warning", "proof" and "fact" as in the records. Unknown numbers
// are left out.
func JSONL(w io.Writer, d *report.Data) error {
	out := NewEncoder(w)
	for _, line := range lines(d) {
		if err := out.Encode(line); err != nil {
			return fmt.Errorf("write jsonl: %w", err)
		}
	}
	return nil
}

func newRunLine(d *report.Data) runLine {
	run, a := d.Run, d.Analysis
	return runLine{
		Type: "run", V: measure.Version, Name: run.Name, Started: run.Started, Design: run.Design, Versions: run.Versions,
		Facts: run.Facts, Machines: run.Machines,
		Blocks: a.Blocks, Generations: a.Generations, Trials: a.Trials, Measured: a.Measured, Ended: ended(run, a),
		Standing: d.Standing(),
	}
}

func lines(d *report.Data) []any {
	a := d.Analysis
	list := []any{newRunLine(d)}
	for _, r := range a.Rows {
		line := newRowLine(r)
		line.Rights = a.Rights[r.Cell.Lab]
		list = append(list, line)
	}
	for _, direct := range d.Direct() {
		list = append(list, newDirectLine(direct))
	}
	for _, p := range a.Probes {
		list = append(list, newProbeLine(p))
	}
	for _, b := range a.Beside {
		line := newDirectLine(b)
		line.Type = "beside"
		list = append(list, line)
	}
	for _, m := range a.Memories() {
		list = append(list, newMemoryLine(m))
	}
	for _, f := range slices.Concat(a.Labs, a.Containers) {
		list = append(list, newLabLine(f, false))
	}
	for _, f := range a.Rebuilt {
		list = append(list, newLabLine(f, true))
	}
	for _, s := range a.Spoiled {
		list = append(list, newSpoiledLine(s))
	}
	for _, f := range a.Failed {
		list = append(list, failedLine{"failed", f.Cell, f.Reason, f.Trials})
	}
	for _, x := range a.Warnings {
		x.Type, x.V = "warning", measure.Version
		list = append(list, x)
	}
	for _, x := range a.Proofs {
		x.Type, x.V = "proof", measure.Version
		list = append(list, x)
	}
	for _, x := range a.Matrices {
		x.Type, x.V = "matrix", measure.Version
		list = append(list, x)
	}
	for _, x := range a.Attacks {
		x.Type, x.V = "attacks", measure.Version
		list = append(list, x)
	}
	for _, p := range a.Proved() {
		list = append(list, newProvedLine(p))
	}
	for _, x := range a.Facts {
		x.Type, x.V = "fact", measure.Version
		list = append(list, x)
	}
	return list
}

func newRowLine(r measure.Row) rowLine {
	c := r.Cell
	line := rowLine{
		Type: "row", Cell: c.ID, Baseline: c.Baseline, Twin: c.Twin, Probe: c.Probe, Unprobed: c.Unprobed, Group: c.Group,
		parts: c.Parts, Placement: c.Placement, Pairs: c.Pairs, Family: c.Family, Affinity: c.Affinity, Idle: c.Idle,
		Workload: c.Workload, Params: c.Params, Mix: c.Mix, LabPairs: c.LabPairs, Alone: c.Alone,
		Implementation: c.Implementation,
		Enforced:       c.Enforced, Metric: r.Metric, Unit: r.Unit, Primary: r.Metric == c.Primary,
		Value: known(r.Value), ValueLo: known(r.ValueLo), ValueHi: known(r.ValueHi), effect: newEffect(r.Effect),
		AdjustedLo: known(r.AdjLo), AdjustedHi: known(r.AdjHi),
		Floor: known(math.Expm1(r.Floor)), Moved: math.Expm1(r.Moved),
		Limit: r.Limit, LimitShare: r.LimitShare, Verdict: r.Verdict, Blocks: r.Blocks, Generations: r.Generations,
	}
	if r.About.Differs() {
		line.Floor = known(r.Floor)
	}
	switch {
	case r.HasRatio:
		line.Spread = known(math.Expm1(r.Estimate.Spread))
	case r.HasDifference:
		line.Spread = known(r.Difference.Spread)
	}
	return line
}

// newDirectLine returns the line of a stack against another one. It has no baseline.
func newDirectLine(d measure.Direct) rowLine {
	line := newRowLine(d.Row)
	line.Type, line.Baseline, line.Over = "direct", "", d.Over.ID
	return line
}

func newProbeLine(p measure.ProbeCost) probeLine {
	line := probeLine{
		Type: "probe", Cell: p.Cell.ID, Probe: p.Cell.Probe, Unprobed: p.Cell.Unprobed, Metric: p.Metric,
		Unit: p.Unit, effect: newEffect(p.Effect),
	}
	switch {
	case p.HasRatio:
		line.Blocks, line.Generations = p.Estimate.Blocks, p.Estimate.Generations
	case p.HasDifference:
		line.Blocks, line.Generations = p.Difference.Blocks, p.Difference.Generations
	}
	return line
}

// known returns nil for a number that is not finite.
func known(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
