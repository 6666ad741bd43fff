package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/view"
	"github.com/nettoll/nettoll/suite"
)

// suiteOf returns the suite that an argument names ("suite:ji2019"), nil where it is the name of something else.
func (a *app) suiteOf(args []string) (*suite.Suite, error) {
	if len(args) == 0 {
		return nil, nil
	}
	name, ok := strings.CutPrefix(args[0], suite.Prefix)
	if !ok {
		return nil, nil
	}
	s, err := suite.Find(name, a.catalogue.Parts().Metrics)
	if err != nil {
		return nil, usageError{err}
	}
	return s, nil
}

// example returns an experiment to start from: that of a suite, or one of the examples.
func (a *app) example(name string) (experiment.Example, error) {
	switch s, err := a.suiteOf([]string{name}); {
	case err != nil:
		return experiment.Example{}, err
	case s != nil:
		return experiment.Example{Name: s.Name, Summary: s.Summary, Text: s.Experiment}, nil
	}
	e, err := experiment.FindExample(name)
	if err != nil {
		return e, usageError{err}
	}
	return e, nil
}

// suites lists what can be named in place of a file.
func suites() []string {
	names := suite.Names()
	for i, n := range names {
		names[i] = suite.Prefix + n
	}
	return names
}

// reproduced returns what a run says of the paper whose suite it is, nil if it is none's.
func (a *app) reproduced(run measure.Run, log *measure.Log, analysis measure.Analysis) *suite.Result {
	if run.Suite == "" {
		return nil
	}
	s, err := suite.Find(run.Suite, a.catalogue.Parts().Metrics)
	if err != nil { // of another nettoll: the rest of the report is worth as much as before
		fmt.Fprintf(a.Err, "nettoll: the claims of the paper were not evaluated: %v\n", err)
		return nil
	}
	return s.Evaluate(run, log, analysis)
}

// sections are what a suite adds to the report of its runs.
func (a *app) sections(run measure.Run, log *measure.Log, analysis measure.Analysis) []report.Section {
	if r := a.reproduced(run, log, analysis); r != nil {
		return r.Sections()
	}
	return nil
}

// writeReport writes a run in a format, with what its suite adds to it.
func (a *app) writeReport(w io.Writer, format string, d *report.Data, o report.Options) error {
	var r *suite.Result
	if format != "csv" { // has no place for it
		r = a.reproduced(d.Run, d.Log, d.Analysis)
	}
	if r == nil {
		return view.Write(w, format, d, o)
	}
	o.Sections = r.Sections()
	if err := view.Write(w, format, d, o); err != nil || format != "jsonl" {
		return err
	}
	return r.JSONL(w)
}
