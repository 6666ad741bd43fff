package export

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

type runLine struct {
	Type        string            `json:"type"` // "run"
	V           int               `json:"v"`
	Name        string            `json:"name"`
	Started     time.Time         `json:"started"`
	Design      measure.Design    `json:"design"`
	Versions    map[string]string `json:"versions,omitempty"`
	Facts       map[string]any    `json:"facts,omitempty"`
	Blocks      int               `json:"blocks"`
	Generations int               `json:"generations"`
	Trials      int               `json:"trials"`
	Measured    float64           `json:"measured"`        // s
	Ended       string            `json:"ended,omitempty"` // as in [CSV]
	// sentences: that it did not end, that its records were changed
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
	parts          []measure.Part    // a key for each kind
	Placement      string            `json:"placement"`
	Pairs          int               `json:"pairs"`
	Family         string            `json:"family"`
	Affinity       string            `json:"affinity"`
	Workload       string            `json:"workload"`
	Params         map[string]string `json:"params,omitempty"`
	Mix            []string          `json:"mix,omitempty"`
	LabPairs       int               `json:"lab_pairs,omitempty"`
	Implementation map[string]string `json:"implementation,omitempty"`
	Enforced       string            `json:"enforced,omitempty"`
	Metric         string            `json:"metric"`
	Unit           string            `json:"unit"`
	Primary        bool              `json:"primary"`
	Value          *float64          `json:"value,omitempty"`
	effect
	AdjustedLo  *float64        `json:"adjusted_lo,omitempty"`
	AdjustedHi  *float64        `json:"adjusted_hi,omitempty"`
	Floor       *float64        `json:"floor,omitempty"`
	Spread      *float64        `json:"spread,omitempty"`
	Limit       string          `json:"limit,omitempty"`
	LimitShare  float64         `json:"limit_share,omitempty"`
	Verdict     measure.Verdict `json:"verdict"`
	Blocks      int             `json:"blocks"`
	Generations int             `json:"generations"`
}

// effect is what a cell is against another, as JSON and CSV have it: nil is not known.
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

// ratios and differences are the columns of CSV.
func (e effect) ratios() []string { return optional(e.Ratio, e.RatioLo, e.RatioHi) }

func (e effect) differences() []string { return optional(e.Difference, e.DifferenceLo, e.DifferenceHi) }

// plainRow is a row without methods.
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
	Metric      string  `json:"metric"`
	Unit        string  `json:"unit"`
	Value       float64 `json:"value"` // the median over generations
	Least       float64 `json:"least"`
	Most        float64 `json:"most"`
	Generations int     `json:"generations"`
	// what it cost where the lab was built once more, because a program had died
	Rebuilt bool `json:"rebuilt,omitempty"`
}

func newLabLine(f measure.LabFigure, rebuilt bool) labLine {
	return labLine{"lab", f.Lab, f.Metric, f.Unit, f.Value, f.Least, f.Most, f.Generations, rebuilt}
}

type probeLine struct {
	Type        string `json:"type"` // "probe"
	Cell        string `json:"cell"` // with it
	Probe       string `json:"probe"`
	Unprobed    string `json:"unprobed"`
	Metric      string `json:"metric"`
	Unit        string `json:"unit"`
	effect             // with / without, with − without
	Blocks      int    `json:"blocks"`
	Generations int    `json:"generations"`
}

type failedLine struct {
	Type   string `json:"type"` // "failed"
	Cell   string `json:"cell"`
	Reason string `json:"reason"`
	Trials int    `json:"trials"`
}

// JSONL writes one JSON object a line, told apart by the field type: first the "run" (name, design, versions, facts of
// the machine, and how much was measured), then a "row" for each cell and metric with the fields of [CSV], a "probe"
// for each probed cell, what that cost, a "lab" for what building each lab cost in each metric, and last whatever there
// is of "failed" cells, "warning", "proof" and "fact", the last three as in the records. A number that is not known is
// left out.
func JSONL(w io.Writer, d *report.Data) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
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
		Facts:  run.Facts,
		Blocks: a.Blocks, Generations: a.Generations, Trials: a.Trials, Measured: a.Measured, Ended: ended(run, a),
		Standing: d.Standing(),
	}
}

func lines(d *report.Data) []any {
	a := d.Analysis
	list := []any{newRunLine(d)}
	for _, r := range a.Rows {
		list = append(list, newRowLine(r))
	}
	for _, p := range a.Probes {
		list = append(list, newProbeLine(p))
	}
	for _, f := range a.Labs {
		list = append(list, newLabLine(f, false))
	}
	for _, f := range a.Rebuilt {
		list = append(list, newLabLine(f, true))
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
		parts: c.Parts, Placement: c.Placement, Pairs: c.Pairs, Family: c.Family, Affinity: c.Affinity,
		Workload: c.Workload, Params: c.Params, Mix: c.Mix, LabPairs: c.LabPairs, Implementation: c.Implementation,
		Enforced: c.Enforced, Metric: r.Metric, Unit: r.Unit, Primary: r.Metric == c.Primary,
		Value: known(r.Value), effect: newEffect(r.Effect), AdjustedLo: known(r.AdjLo), AdjustedHi: known(r.AdjHi),
		Floor: known(math.Expm1(r.Floor)),
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
