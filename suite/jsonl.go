package suite

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// claimLine is a claim at one of its places.
type claimLine struct {
	Type      string          `json:"type"` // "claim"
	Suite     string          `json:"suite"`
	Claim     string          `json:"claim"`
	At        string          `json:"at,omitempty"`
	Of        string          `json:"of"` // the ratio, in words
	Above     float64         `json:"above,omitempty"`
	Below     float64         `json:"below,omitempty"`
	Published *float64        `json:"published,omitempty"`
	There     measure.Finding `json:"published_finding"`
	interval
	Floor       *float64        `json:"floor,omitempty"` // a share, as in rows
	Finding     measure.Finding `json:"finding"`
	Longer      *float64        `json:"decided_by,omitempty"` // s of measuring that would decide the claim
	Missing     string          `json:"missing,omitempty"`
	Generations int             `json:"generations"`
}

// interval is a measured ratio with its 95 % interval.
type interval struct {
	Ratio *float64 `json:"ratio,omitempty"`
	Lo    *float64 `json:"ratio_lo,omitempty"`
	Hi    *float64 `json:"ratio_hi,omitempty"`
}

// figureLine is a published figure and the measured value. Values are in base units.
type figureLine struct {
	Type      string   `json:"type"` // "figure"
	Suite     string   `json:"suite"`
	At        Point    `json:"at"`
	Source    string   `json:"source"`
	Published float64  `json:"published"`
	Cell      string   `json:"cell,omitempty"`
	As        string   `json:"published_as"` // as the paper writes it, "87,263 pps"
	Value     *float64 `json:"value,omitempty"`
	Reference string   `json:"reference,omitempty"`
	There     *float64 `json:"published_ratio,omitempty"`
	interval
	Verdict measure.Verdict `json:"verdict,omitempty"`
}

// JSONL writes one JSON object a line: a "claim" for each place of each claim, and a "figure" for each published
// figure. Unknown numbers are left out.
func (r *Result) JSONL(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for _, line := range r.lines() {
		if err := out.Encode(line); err != nil {
			return fmt.Errorf("write jsonl: %w", err)
		}
	}
	return nil
}

func (r *Result) lines() []any {
	var list []any
	for _, c := range r.Claims {
		for _, p := range c.Parts {
			l := claimLine{
				Type: "claim", Suite: r.Suite.Name, Claim: c.ID, At: p.At, Of: p.Of, Above: p.Bounds.Above,
				Below:     p.Bounds.Below,
				Published: known(p.There), There: p.Finding, Finding: p.Answer.Finding, Missing: p.Missing,
				Generations: p.Here.Generations,
			}
			if p.Missing == "" {
				l.interval = interval{known(p.Here.Ratio), known(p.Here.Lo), known(p.Here.Hi)}
				l.Floor = known(math.Expm1(p.Here.Floor))
			}
			if p.Answer.Finding == measure.CannotTell {
				l.Longer = known(p.Answer.Longer * r.Measured)
			}
			list = append(list, l)
		}
	}
	for _, c := range r.Compare() {
		m := r.Suite.metric(c.At[metricOf])
		l := figureLine{
			Type: "figure", Suite: r.Suite.Name, At: c.At, Source: c.Source, Published: c.Figure.Value,
			As: strings.TrimSpace(c.As + " " + m.In), Value: known(c.Value), Reference: c.Reference, There: known(c.There),
			Verdict: c.Verdict,
		}
		if c.Cell != nil {
			l.Cell = c.Cell.ID
		}
		if c.Here != nil {
			l.interval = interval{known(c.Here.Ratio), known(c.Here.Lo), known(c.Here.Hi)}
		}
		list = append(list, l)
	}
	return list
}

// known returns nil for a number that is not finite.
func known(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
