package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/suite"
)

// library holds all that is part of nettoll: parts, suites and examples.
type library struct{ catalogue catalogue.Catalogue }

// entries lists the whole library, kind by kind, in the order of the catalogue. The list command, its completion and
// its help use it.
func (l library) entries() []entry {
	var all []entry
	add := func(where string, kinds stack.Kinds) {
		for _, kind := range kinds {
			d := kind.Describe()
			for _, p := range kind.Parts() {
				summary := p.Summary
				if d.Note != "" {
					summary += "; " + d.Note
				}
				all = append(all, newEntry(where+d.Name, p.Name, summary, p.Implementation, p.Params))
			}
		}
	}
	add("", l.catalogue.Kinds)
	add("cluster-", l.catalogue.Cluster)
	for _, w := range l.catalogue.Workloads {
		d := w.Describe()
		all = append(all, newEntry("workload", d.Name, d.Summary, "", d.Params))
	}
	all = append(all, newEntry("workload", experiment.Mix, experiment.MixSummary, "", nil))
	for _, r := range l.catalogue.Parts().Drivers {
		d := r.Describe()
		all = append(all, newEntry("driver", d.Name, d.Summary, "", nil))
	}
	for _, a := range control.KnownAttacks() {
		d := control.DescribeAttack(a)
		e := newEntry("attack", string(a), d.Summary+" ("+d.Source+")", "", nil)
		e.Control = d.Control
		all = append(all, e)
	}
	for _, name := range suite.Names() {
		all = append(all, newEntry("suite", name, suite.Summary(name), "", nil))
	}
	examples, _ := experiment.Examples() // embedded: they cannot fail
	for _, e := range examples {
		all = append(all, newEntry("example", e.Name, e.Summary, "", nil))
	}
	return all
}

// kinds lists the kinds that have entries.
func (l library) kinds() []string {
	var kinds []string
	for _, e := range l.entries() {
		if !slices.Contains(kinds, e.Kind) {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// about returns the entries of a kind, also if it is in the plural, or, if no kind has this name, those with this name.
func (l library) about(name string) []entry {
	all := l.entries()
	is := func(e entry) bool { return e.Name == name }
	if kind := func(e entry) bool { return e.Kind == name || e.Kind+"s" == name }; slices.ContainsFunc(all, kind) {
		is = kind
	}
	return slices.DeleteFunc(all, func(e entry) bool { return !is(e) })
}

func (l library) names() []string {
	var names []string
	for _, e := range l.entries() {
		names = append(names, e.Name)
	}
	return names
}

// entry is a part, a suite or an example. `list --output json` prints it: keys may be added, but not renamed.
type entry struct {
	Kind           string       `json:"kind"`
	Name           string       `json:"name"`
	Summary        string       `json:"summary"`
	Implementation string       `json:"implementation,omitempty"`
	Control        string       `json:"control,omitempty"` // the lab that shows that an attack works
	Params         []entryParam `json:"params,omitempty"`
}

type entryParam struct {
	Name    string   `json:"name"`
	Default string   `json:"default"`
	Values  []string `json:"values,omitempty"` // all valid values; absent if the summary gives the range
	Summary string   `json:"summary"`
}

func newEntry(kind, name, summary, implementation string, params part.List) entry {
	e := entry{Kind: kind, Name: name, Summary: summary, Implementation: implementation}
	for _, p := range params {
		e.Params = append(e.Params, entryParam{p.Name, p.Default, p.Values, p.Summary})
	}
	return e
}

// probes describes each probe, for the help of a flag.
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

// suiteOf returns the suite that the first argument names, such as "suite:ji2019", or nil if it names something else.
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

// example returns an experiment to start from: an example, or the experiment of a suite.
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

// suites lists the suites as an argument names them, such as "suite:ji2019".
func suites() []string {
	names := suite.Names()
	for i, n := range names {
		names[i] = suite.Prefix + n
	}
	return names
}
