package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/suite"
)

// library is what comes with nettoll: parts, suites and examples.
type library struct{ catalogue catalogue.Catalogue }

// entries lists everything, kind by kind, in the order of the catalogue. What list, its completion and its help say of
// kinds comes from here.
func (l library) entries() []entry {
	var all []entry
	for _, kind := range l.catalogue.Kinds {
		d := kind.Describe()
		for _, p := range kind.Parts() {
			summary := p.Summary
			if d.Note != "" {
				summary += "; " + d.Note
			}
			all = append(all, newEntry(d.Name, p.Name, summary, p.Implementation, p.Params))
		}
	}
	for _, w := range l.catalogue.Workloads {
		d := w.Describe()
		all = append(all, newEntry("workload", d.Name, d.Summary, "", d.Params))
	}
	all = append(all, newEntry("workload", experiment.Mix, experiment.MixSummary, "", nil))
	for _, r := range l.catalogue.Parts().Drivers {
		d := r.Describe()
		all = append(all, newEntry("driver", d.Name, d.Summary, "", nil))
	}
	for _, name := range suite.Names() {
		all = append(all, newEntry("suite", name, suite.Summary(name), "", nil))
	}
	examples, _ := experiment.Examples() // they are part of the program
	for _, e := range examples {
		all = append(all, newEntry("example", e.Name, e.Summary, "", nil))
	}
	return all
}

// kinds lists the kinds of which there is something.
func (l library) kinds() []string {
	var kinds []string
	for _, e := range l.entries() {
		if !slices.Contains(kinds, e.Kind) {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// entry is one thing that an experiment can be made of or start from. Its JSON is what `list --json` prints: keys are
// added, and never renamed.
type entry struct {
	Kind           string       `json:"kind"`
	Name           string       `json:"name"`
	Summary        string       `json:"summary"`
	Implementation string       `json:"implementation,omitempty"`
	Params         []entryParam `json:"params,omitempty"`
}

type entryParam struct {
	Name    string   `json:"name"`
	Default string   `json:"default"`
	Values  []string `json:"values,omitempty"` // all there are; absent where the summary says the range
	Summary string   `json:"summary"`
}

func newEntry(kind, name, summary, implementation string, params part.List) entry {
	e := entry{Kind: kind, Name: name, Summary: summary, Implementation: implementation}
	for _, p := range params {
		e.Params = append(e.Params, entryParam{p.Name, p.Default, p.Values, p.Summary})
	}
	return e
}

// probes says what each probe is, for the help of a flag.
func (l library) probes() string {
	var text strings.Builder
	for _, p := range l.catalogue.Probes {
		d := p.Describe()
		fmt.Fprintf(&text, "%s, which is %s and needs %s; ", d.Name, d.Summary, d.Needs)
	}
	return text.String()
}

func (l library) workloads() []string {
	var names []string
	for _, w := range l.catalogue.Workloads {
		names = append(names, w.Describe().Name)
	}
	return names
}

// suiteOf returns the suite that an argument names ("suite:ji2019"), nil where it is the name of something else.
func (l library) suiteOf(args []string) (*suite.Suite, error) {
	if len(args) == 0 {
		return nil, nil
	}
	name, ok := strings.CutPrefix(args[0], suite.Prefix)
	if !ok {
		return nil, nil
	}
	s, err := suite.Find(name, l.catalogue.Parts().Metrics)
	if err != nil {
		return nil, usageError{err}
	}
	return s, nil
}

// example returns an experiment to start from: that of a suite, or one of the examples.
func (l library) example(name string) (experiment.Example, error) {
	switch s, err := l.suiteOf([]string{name}); {
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
