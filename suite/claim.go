package suite

import (
	"errors"
	"math"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// Result is what a run says of a paper.
type Result struct {
	Suite    *Suite
	Measured float64 // s of measuring that the run took
	Checks   []Judged
	Claims   []Judged
	combine  *measure.Combiner
	run      *measure.Run
	analysis *measure.Analysis
}

// Judged is a claim with what became of it.
type Judged struct {
	Claim
	Parts []Part
	There measure.Finding // on the paper's own figures
	Here  measure.Answer  // on this machine
}

// Part is a claim's ratio at one of its points.
type Part struct {
	At     string // "10 pairs, payload 28"
	Of     string // "macvlan : none"
	ratio  int    // index into Claim.Ratios
	Bounds measure.Bounds
	// There is the ratio of the published figures, NaN if one of them is missing, and what it says.
	There   float64
	Finding measure.Finding
	// Here is the ratio that was measured, and what it says. Missing says why there is none; "" where there is one.
	Here    measure.Combined
	Missing string
	Answer  measure.Answer
}

// Evaluate says what a run says of the paper. The checks are of the paper's figures alone; the claims are judged as one
// family, see [measure.Judge].
func (s *Suite) Evaluate(run measure.Run, log *measure.Log, a measure.Analysis) *Result {
	r := &Result{Suite: s, Measured: a.Measured, combine: measure.NewCombiner(run, log, a), run: &run, analysis: &a}
	for _, c := range s.Checks {
		r.Checks = append(r.Checks, r.there(c))
	}
	var questions []measure.Question
	for _, c := range s.Claims {
		j := r.there(c)
		for i := range j.Parts {
			questions = append(questions, measure.Question{Combined: j.Parts[i].Here, Bounds: j.Parts[i].Bounds})
		}
		r.Claims = append(r.Claims, j)
	}
	answers := measure.Judge(questions)
	for i := range r.Claims {
		c := &r.Claims[i]
		for j := range c.Parts {
			c.Parts[j].Answer = answers[j]
		}
		c.Here = measure.Summarise(answers[:len(c.Parts)])
		answers = answers[len(c.Parts):]
	}
	return r
}

// there evaluates a claim on the paper's figures, and looks up what was measured here.
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
			var terms []measure.Term
			scale := factor
			for _, t := range ratio.Over {
				r.term(&p, &terms, &scale, at.with(t), 1)
			}
			for _, t := range ratio.Under {
				r.term(&p, &terms, &scale, at.with(t), -1)
			}
			p.Finding = p.Bounds.Of(p.There)
			exact = append(exact, measure.Answer{Finding: p.Finding})
			r.here(&p, terms, scale)
			j.Parts = append(j.Parts, p)
		}
	}
	j.There = measure.Summarise(exact).Finding
	return j
}

const notMeasured = "not measured"

// term adds the figure at a point to a ratio, to a power.
func (r *Result) term(p *Part, terms *[]measure.Term, scale *float64, at Point, power float64) {
	f, _ := r.Suite.published(at)
	p.There *= math.Pow(f.Value, power)
	m := r.Suite.metric(at[metricOf])
	c := r.Suite.cell(r.run, at)
	if c == nil {
		if p.Missing == "" {
			p.Missing = r.Suite.where(at) + " was " + notMeasured
		}
		return
	}
	*terms = append(*terms, m.Here.term(c, power))
	*scale *= math.Pow(m.Here.Scale, power)
}

// here estimates a ratio from a run.
func (r *Result) here(p *Part, terms []measure.Term, scale float64) {
	p.Here.Floor = math.NaN()
	if p.Missing != "" {
		return
	}
	got, err := r.combine.Combine(terms)
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

// describe says where a point of a claim lies, as far as the claim has several.
func (s *Suite) describe(each Space, at Point) string {
	var list []string
	for _, k := range s.coordinates() {
		if len(each[k]) > 1 {
			list = append(list, coordinate(k, at[k]))
		}
	}
	return strings.Join(list, ", ")
}

// coordinate writes a coordinate for people.
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
	case name == metricOf || name == stackOf || name == "placement" || name == "payload":
		return value
	}
	return name + " " + value
}

// words writes a ratio for people: "macvlan : none".
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

// Compared is a published figure beside what was measured here.
type Compared struct {
	Figure
	Cell *measure.Cell // nil if it was not measured here
	// Value is what was measured, in base units; NaN where nothing was.
	Value float64
	// Reference is the stack that the ratios are to, "" where the figure is the reference itself or there is none.
	Reference string
	There     float64 // ratio of the published figures
	// Here is that of those measured; nil where there is none.
	Here *measure.Combined
	// Verdict is nettoll's own of the cell against the reference.
	Verdict measure.Verdict
}

// Compare puts every published figure beside what was measured here, in the order of the figures.
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
	var open []int // whose verdict is not in the analysis, since the reference is not the baseline
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
		for i, v := range measure.Verdicts(ratios, d, r.run.Design.Precision) {
			of[i].Verdict = v
		}
	}
	return list
}

// reference returns the figure that a figure is compared with, false for the reference itself.
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
