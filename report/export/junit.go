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
		Properties []junitProperty `xml:"properties>property"`
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
		s := newJUnitSuite(c, all)
		out.Tests, out.Failures = out.Tests+s.Tests, out.Failures+s.Failures
		out.Errors, out.Skipped = out.Errors+s.Errors, out.Skipped+s.Skipped
		out.Suites = append(out.Suites, s)
	}
	b, err := xml.MarshalIndent(out, "", "  ")
	if err == nil {
		_, err = io.WriteString(w, xml.Header+string(b)+"\n")
	}
	if err != nil {
		return fmt.Errorf("write junit: %w", err)
	}
	return nil
}

func newJUnitSuite(c *report.Compared, all bool) junitSuite {
	s := junitSuite{
		Name: report.Printable(c.NewDir + " against " + c.OldDir),
		Out:  strings.Join(slices.Concat(c.Standing(), c.Comparison(false).Answer, c.Doubts()), "\n"),
		Properties: []junitProperty{
			{"old", report.Printable(c.OldDir)}, {"new", report.Printable(c.NewDir)}, {"compared", compared(c)},
		},
	}
	if at := c.New.Run.Started; !at.IsZero() {
		s.Timestamp = at.UTC().Format("2006-01-02T15:04:05")
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
		one := newJUnitCase(c, x)
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
	for _, one := range provedCases(&c.New.Analysis) {
		s.Tests++
		if one.Failure != nil {
			s.Failures++
		}
		if one.Skipped != nil {
			s.Skipped++
		}
		s.Cases = append(s.Cases, one)
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
