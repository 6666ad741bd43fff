package suite

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// Result holds the findings of a run about a paper.
type Result struct {
	Suite    *Suite
	Measured float64 // s of measuring in the run
	Checks   []Judged
	Claims   []Judged
	narrowed bool // the run measured only some of the paper, on request
	combine  *measure.Combiner
	run      *measure.Run
	analysis *measure.Analysis
}

// Judged is a claim with its findings.
type Judged struct {
	Claim
	Parts []Part
	There measure.Finding // on the paper's own figures
	Here  measure.Answer  // on this machine
}

// Part is the ratio of a claim at one of its points.
type Part struct {
	At     string // "10 pairs, payload 28"
	Of     string // "macvlan : none"
	ratio  int    // index into Claim.Ratios
	terms  []measure.Term
	cells  []string // ids, of the terms
	Bounds measure.Bounds
	// There is the ratio of the published figures, NaN if one of them is missing; Finding is the answer to it.
	There   float64
	Finding measure.Finding
	// Here is the ratio that was measured. Missing is the reason why there is none; "" if there is one.
	Here    measure.Combined
	Missing string
	untried bool // the run has no such cell
	Answer  measure.Answer
}

// NotTried is the finding about a claim that the run did not measure.
const NotTried measure.Finding = "not tried"

// Tried reports whether the run has the cells of the claim, at one of its places at least.
func (c Judged) Tried() bool {
	return slices.ContainsFunc(c.Parts, func(p Part) bool { return !p.untried })
}

// measurements returns the parts of a claim that are separate measurements here. Places of the paper that are one cell
// here, such as those of two machines, count once.
func (c Judged) measurements() []Part {
	var list []Part
	for _, p := range c.Parts {
		if p.untried || !slices.ContainsFunc(list, p.repeats) {
			list = append(list, p)
		}
	}
	return list
}

// repeats reports whether two parts ask the same of the same measurement.
func (p Part) repeats(o Part) bool {
	return !o.untried && p.Bounds == o.Bounds && slices.Equal(p.terms, o.terms)
}

// Evaluate compares a run with the paper. Checks are evaluated on the paper's figures alone. All claims are judged as
// one family: see [measure.Judge].
func (s *Suite) Evaluate(run measure.Run, log *measure.Log, a measure.Analysis) *Result {
	return s.evaluate(run, log, a, run.Design.Level())
}

// evaluate does what Evaluate does, at an error rate.
func (s *Suite) evaluate(run measure.Run, log *measure.Log, a measure.Analysis, alpha float64) *Result {
	r := &Result{
		Suite: s, Measured: a.Measured, combine: measure.NewCombiner(run, log, a), run: &run, analysis: &a,
		narrowed: narrowed(run),
	}
	for _, c := range s.Checks {
		r.Checks = append(r.Checks, r.there(c))
	}
	var questions []measure.Question
	for _, c := range s.Claims {
		j := r.there(c)
		for i := range j.Parts {
			p := &j.Parts[i]
			questions = append(questions, measure.Question{Combined: p.Here, Bounds: p.Bounds, Terms: p.terms})
		}
		r.Claims = append(r.Claims, j)
	}
	answers := measure.Judge(questions, alpha)
	for i := range r.Claims {
		c := &r.Claims[i]
		for j := range c.Parts {
			if c.Parts[j].Answer = answers[j]; c.Parts[j].untried {
				c.Parts[j].Answer.Finding = NotTried
			}
		}
		if c.Here = measure.Summarise(answers[:len(c.Parts)]); !c.Tried() {
			c.Here.Finding = NotTried
		}
		answers = answers[len(c.Parts):]
	}
	return r
}

// narrowed reports whether the experiment of a run was limited to some of its cells.
func narrowed(run measure.Run) bool {
	var e struct {
		Only []string `json:"only"`
	}
	return json.Unmarshal(run.Experiment, &e) == nil && e.Only != nil
}

// there evaluates a claim on the paper's figures, and looks up the measured values.
func (r *Result) there(c Claim) Judged {
	j := Judged{Claim: c}
	s := r.Suite
	var exact []measure.Answer
	for _, at := range c.Each.cross(s.coordinates()) {
		for i, ratio := range c.Ratios {
			p := Part{
				ratio: i, At: s.describe(c.Each, at), Of: s.words(at, ratio),
				Bounds: measure.Bounds{Above: ratio.Above, Below: ratio.Below},
			}
			factor := 1.0
			if ratio.Factor != 0 {
				factor = ratio.Factor
			}
			p.There = factor
			scale := factor
			for _, t := range ratio.Over {
				r.term(&p, &scale, at.with(t), 1)
			}
			for _, t := range ratio.Under {
				r.term(&p, &scale, at.with(t), -1)
			}
			if needed := c.lacks(r.run); needed != "" {
				p.untried, p.Missing, p.terms, p.cells = true, "it needs "+needed, nil, nil
			}
			p.Finding = p.Bounds.Of(p.There)
			exact = append(exact, measure.Answer{Finding: p.Finding})
			r.here(&p, scale)
			j.Parts = append(j.Parts, p)
		}
	}
	if j.There = measure.Summarise(exact).Finding; len(exact) == 0 {
		j.There = NotTried
	}
	return j
}

const notMeasured = "not measured"

// term multiplies a ratio by the figure at a point, to a power.
func (r *Result) term(p *Part, scale *float64, at Point, power float64) {
	f, _ := r.Suite.published(at)
	p.There *= math.Pow(f.Value, power)
	m := r.Suite.metric(at[metricOf])
	c := r.Suite.cell(r.run, at)
	if c == nil {
		p.untried = true
		if p.Missing == "" {
			p.Missing = r.Suite.where(at) + " was " + notMeasured
		}
		return
	}
	p.terms, p.cells = append(p.terms, m.Here.term(c, power)), append(p.cells, c.ID)
	*scale *= math.Pow(m.Here.Scale, power)
}

// here estimates a ratio from a run.
func (r *Result) here(p *Part, scale float64) {
	p.Here.Floor = math.NaN()
	if p.Missing != "" {
		return
	}
	got, err := r.combine.Combine(p.terms)
	switch {
	case errors.Is(err, measure.ErrFewGenerations) && got.Generations == 0:
		p.Missing = "no complete block"
	case errors.Is(err, measure.ErrFewGenerations):
		p.Missing = "one generation gives no interval"
	case errors.Is(err, measure.ErrNotFinite):
		p.Missing = "half of the values are 0"
	case err != nil:
		p.Missing = err.Error()
	case got.Generations < measure.LeastGenerations:
		p.Missing = report.TooFew(got.Generations)
	default:
		p.Here = scaled(got, scale)
	}
}

// scaled multiplies an estimate by a constant.
func scaled(c measure.Combined, by float64) measure.Combined {
	c.Log += math.Log(by)
	c.Ratio, c.Lo, c.Hi = c.Ratio*by, c.Lo*by, c.Hi*by
	return c
}

// describe returns the place of a point, by the coordinates in which the points of the claim differ.
func (s *Suite) describe(each Space, at Point) string {
	var list []string
	for _, k := range s.coordinates() {
		if len(each[k]) > 1 {
			list = append(list, coordinate(k, at[k]))
		}
	}
	return strings.Join(list, ", ")
}

// coordinate returns a coordinate in words.
func coordinate(name, value string) string {
	switch {
	case name == "pairs" && value == "1":
		return "1 pair"
	case name == "pairs":
		return value + " pairs"
	case name == "placement" && value == "same-host":
		return "one host"
	case name == "placement" && value == "cross-host":
		return "across hosts"
	case name == "payload" && strings.Trim(value, "0123456789") == "":
		return value + " bytes"
	case name == metricOf || name == stackOf || name == "placement" || name == "payload" || name == "plugin":
		return value
	}
	return name + " " + value
}

// words returns a ratio in words: "macvlan : none".
func (s *Suite) words(at Point, r Ratio) string {
	if r.As != "" {
		return r.As
	}
	over, under := at.with(r.Over[0]), at.with(r.Under[0])
	var a, b []string
	for _, k := range s.coordinates() {
		if over[k] != under[k] {
			a, b = append(a, coordinate(k, over[k])), append(b, coordinate(k, under[k]))
		}
	}
	return strings.Join(a, ", ") + " : " + strings.Join(b, ", ")
}

// Compared is a published figure and the value measured here.
type Compared struct {
	Figure
	Cell *measure.Cell // nil if it was not measured here
	// Value is the measured value, in base units; NaN if there is none.
	Value float64
	// Reference is the stack that ratios are to; "" if the figure is the reference itself, or there is none.
	Reference string
	There     float64 // ratio of the published figures
	// Here is the ratio of the measured values; nil if there is none.
	Here *measure.Combined
	// Verdict is nettoll's verdict on the cell against the reference.
	Verdict measure.Verdict
}

// Compare returns every published figure with the value measured here, in the order of the figures.
func (r *Result) Compare() []Compared {
	s := r.Suite
	rows, labs := map[string]*measure.Row{}, map[string]float64{}
	for i := range r.analysis.Rows {
		row := &r.analysis.Rows[i]
		rows[row.Cell.ID+" "+row.Metric] = row
	}
	for i := range r.analysis.Labs {
		f := &r.analysis.Labs[i]
		labs[f.Lab+" "+f.Metric] = f.Value
	}
	list := make([]Compared, len(s.Figures))
	var open []int // indices of rows without a verdict in the analysis, because the reference is not the baseline
	for i, f := range s.Figures {
		m := s.metric(f.At[metricOf])
		c := Compared{Figure: f, Cell: s.cell(r.run, f.At), Value: math.NaN(), There: math.NaN()}
		var row *measure.Row
		switch {
		case c.Cell == nil:
		case m.Here.Lab:
			if x, ok := labs[c.Cell.Lab+" "+m.Here.Metric]; ok {
				c.Value = x * m.Here.Scale
			}
		default:
			if row = rows[c.Cell.ID+" "+m.Here.metricName(c.Cell)]; row != nil {
				c.Value = row.Value * m.Here.Scale
			}
		}
		if ref, ok := s.reference(f); ok {
			c.Reference, c.There = ref.At[stackOf], f.Value/ref.Value
			if other := s.cell(r.run, ref.At); other != nil && !math.IsNaN(c.Value) {
				got, err := r.combine.Combine([]measure.Term{m.Here.term(c.Cell, 1), m.Here.term(other, -1)})
				switch {
				case err != nil:
				case row != nil && other.ID == c.Cell.Baseline:
					c.Here, c.Verdict = &got, row.Verdict
				default:
					c.Here, open = &got, append(open, i)
				}
			}
		}
		list[i] = c
	}
	for _, m := range s.Metrics {
		var of []*Compared
		var ratios []measure.Combined
		for _, i := range open {
			if c := &list[i]; c.At[metricOf] == m.Name {
				of, ratios = append(of, c), append(ratios, *c.Here)
			}
		}
		d, _ := r.run.Vocabulary().Lookup(m.Here.Metric)
		for i, v := range measure.Verdicts(ratios, d, r.run.Design) {
			of[i].Verdict = v
		}
	}
	return list
}

// reference returns the figure that a figure is compared with; false for the reference itself.
func (s *Suite) reference(f Figure) (Figure, bool) {
	for _, name := range s.Reference {
		if name == f.At[stackOf] {
			break
		}
		if ref, ok := s.published(f.At.with(Point{stackOf: name})); ok {
			return ref, true
		}
	}
	return Figure{}, false
}
