package export

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// The elements of JUnit's XML, as far as programs that read it agree.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Cases      []junitCase     `xml:"testcase"`
		Out        string          `xml:"system-out,omitempty"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
		Skipped *junitProblem `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
	}
)

// ComparedJUnit writes a comparison as JUnit XML, which CI systems show. Each newer run is a test suite. Each cell has
// a test case in its primary metric, and in other metrics if gates name them or all is true. A case fails if a gate
// does or, without gates, if the cell became worse. It is skipped, with the reason, if it is not decided, and an error
// if the cell failed.
func ComparedJUnit(w io.Writer, l report.Comparisons, all bool) error {
	out := junitSuites{Name: "nettoll compare"}
	for _, c := range l {
		out.add(newJUnitSuite(c, all))
	}
	return out.write(w)
}

func (x junitSuites) write(w io.Writer) error {
	b, err := xml.MarshalIndent(x, "", "  ")
	if err == nil {
		_, err = io.WriteString(w, xml.Header+string(b)+"\n")
	}
	if err != nil {
		return fmt.Errorf("write junit: %w", err)
	}
	return nil
}

// add adds a test case.
func (s *junitSuite) add(one junitCase) {
	s.Tests++
	switch {
	case one.Error != nil:
		s.Errors++
	case one.Failure != nil:
		s.Failures++
	case one.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, one)
}

// add adds a test suite.
func (x *junitSuites) add(s junitSuite) {
	x.Tests, x.Failures = x.Tests+s.Tests, x.Failures+s.Failures
	x.Errors, x.Skipped = x.Errors+s.Errors, x.Skipped+s.Skipped
	x.Suites = append(x.Suites, s)
}

// A Proven is what the claims of a lab and attacks on it have shown.
type Proven struct {
	Claims  []measure.Proof
	Attacks measure.Attacks
}

// ProvenJUnit writes what labs have shown as JUnit XML, which CI systems show. Each lab is a test suite, with a test
// case for each of its claims and for each attack.
func ProvenJUnit(w io.Writer, labs []Proven) error {
	out := junitSuites{Name: "nettoll prove"}
	for i := range labs {
		l := &labs[i]
		s := junitSuite{Name: report.Printable(l.Attacks.Lab)}
		for _, p := range l.Claims {
			one := junitCase{Class: s.Name, Name: report.Printable(p.Claim)}
			said := s.Name + ": " + report.Printable(p.Claim) + ": "
			switch {
			case !p.OK:
				one.Failure = &junitProblem{Message: said + report.Printable(p.Detail), Type: string(measure.HeldNot)}
			case p.Untold != "":
				one.Skipped = &junitProblem{Message: said + report.Printable(p.Untold), Type: string(measure.HeldUntold)}
			}
			s.add(one)
		}
		for _, one := range attackCases(&l.Attacks) {
			s.add(one)
		}
		out.add(s)
	}
	return out.write(w)
}

// JUnit writes what the labs of a run protect as JUnit XML, and each cell that failed as an error. Whether a change is
// acceptable is for a comparison to say: see [ComparedJUnit].
func JUnit(w io.Writer, data *report.Data) error {
	s := junitSuite{
		Name: report.Printable(data.Run.Name), Out: strings.Join(slices.Concat(data.Standing(), data.Read().Doubts()), "\n"),
	}
	for _, f := range data.Analysis.Failed {
		s.add(junitCase{Class: report.Printable(f.Cell), Name: "measured", Error: &junitProblem{
			Message: report.Printable(f.Cell) + ": " + report.Printable(f.Reason), Type: string(measure.HasFailed),
		}})
	}
	for _, one := range provedCases(&data.Analysis) {
		s.add(one)
	}
	if at := data.Run.Started; !at.IsZero() {
		s.Timestamp = at.UTC().Format(junitTime)
	}
	out := junitSuites{Name: "nettoll report"}
	out.add(s)
	return out.write(w)
}

// junitTime is the form of times.
const junitTime = "2006-01-02T15:04:05"

func newJUnitSuite(c *report.Compared, all bool) junitSuite {
	s := junitSuite{
		Name: report.Printable(c.NewDir + " against " + c.OldDir),
		Out:  strings.Join(slices.Concat(c.Standing(), c.Comparison(false).Answer, c.Doubts()), "\n"),
		Properties: []junitProperty{
			{"old", report.Printable(c.OldDir)}, {"new", report.Printable(c.NewDir)}, {"compared", compared(c)},
		},
	}
	if at := c.New.Run.Started; !at.IsZero() {
		s.Timestamp = at.UTC().Format(junitTime)
	}
	for _, o := range c.Obstacles {
		s.Properties = append(s.Properties, junitProperty{
			"differs: " + report.Brief(o.What), report.Brief(o.Old) + " → " + report.Brief(o.New),
		})
	}
	for i := range c.Changes {
		x := &c.Changes[i]
		about := slices.ContainsFunc(c.Found, func(f report.Found) bool { return f.Change == x })
		switch {
		case x.Verdict == measure.IsTwin || x.Verdict == measure.IsProbed || x.Verdict == measure.NotCompared:
			continue
		case !all && !x.Primary && !about || x.Verdict == measure.IsBaseline && !x.Primary && !about:
			continue
		}
		s.add(newJUnitCase(c, x))
	}
	for _, one := range provedCases(&c.New.Analysis) {
		s.add(one)
	}
	return s
}

func newJUnitCase(c *report.Compared, x *measure.Change) junitCase {
	one := junitCase{Class: report.Printable(x.Cell.ID), Name: report.Label(x.About)}
	said := func(kind measure.Verdict) *junitProblem {
		return &junitProblem{Message: report.Named(x) + ": " + string(kind), Type: string(kind)}
	}
	verdict := x.Verdict
	if verdict == measure.IsBaseline {
		verdict = cmp.Or(x.Shift, verdict)
	}
	var failed, untold []string
	for _, f := range c.Found {
		switch {
		case f.Change != x:
		case f.Finding == measure.Holds:
			failed = append(failed, f.Gate.Text)
		case f.Finding == measure.CannotTell:
			untold = append(untold, f.Gate.Text)
		}
	}
	switch {
	case verdict.Failed():
		one.Error = said(verdict)
	case len(failed) > 0:
		one.Failure = said(verdict)
		one.Failure.Message += "; --fail-on " + strings.Join(failed, ",")
	case !c.Gated() && x.Worse():
		one.Failure = said(verdict)
	case len(untold) > 0:
		one.Skipped = &junitProblem{
			Message: report.Named(x) + ": cannot be told: --fail-on " + strings.Join(untold, ","), Type: "undecided",
		}
	case x.Unsure != "":
		one.Skipped = said(measure.Verdict(fmt.Sprintf("whether it became %s cannot be told: the load of the machine may "+
			"explain it", x.Unsure)))
		one.Skipped.Type = "undecided"
	case report.Undecided(x):
		one.Skipped = said(verdict)
	}
	return one
}
