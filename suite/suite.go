package suite

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/nettoll/nettoll/measure"
)

//go:embed */experiment.yaml */figures.csv */suite.yaml
var folders embed.FS

// Prefix marks the name of a suite where a file could be given: "suite:ji2019".
const Prefix = "suite:"

// Suite is a paper and the experiment that reproduces it.
type Suite struct {
	Name       string // the name of its folder
	Summary    string // the first line of its experiment
	Experiment []byte // YAML

	Paper  Paper
	Stacks []Stack
	// the coordinates of figures beside metric and stack: properties of a cell, or parameters of its workload
	Axes []string
	// Theirs are the axes that only the paper has, such as its network plugins where a run has that of its cluster: a cell
	// lies at each of their values.
	Theirs    []string
	Metrics   []Metric
	Reference []string // stacks: ratios are to the first one with a figure at the same place
	Differs   []string // differences between what the paper measured and what the suite measures
	Figures   []Figure
	Checks    []Claim // nettoll's own, about the paper's figures
	Claims    []Claim // the paper's
	Drawings  []Drawing

	unpublished []unpublished
}

// Paper identifies the reproduced paper.
type Paper struct {
	Authors string `yaml:"authors"`
	Title   string `yaml:"title"`
	In      string `yaml:"in"`
	DOI     string `yaml:"doi"`
}

// Stack maps a paper's name of a stack to its names in the experiment: the first one that was measured at a place
// counts. Missing is the reason why the experiment has none of them by itself.
type Stack struct {
	Name    string   `yaml:"name"`
	Here    []string `yaml:"here"`
	Missing string   `yaml:"missing"`
}

// Metric maps a paper's name of a metric to its place in a run.
type Metric struct {
	Name  string  `yaml:"name"`
	Title string  `yaml:"title"`
	Unit  float64 `yaml:"unit"` // the paper's unit, in base units
	In    string  `yaml:"in"`   // the paper's unit as it writes it; if "", figures are shown in base units
	// Of is the stack that the paper's figures are shares of, if the paper gives only shares. The unit is then 1, and the
	// figure of that stack is 1. If Of is "", the figures are values.
	Of   string   `yaml:"of"`
	Here Recorded `yaml:"here"`
}

// Recorded is a metric of a run: of the trials of a workload, or of labs, which have one value in each generation.
type Recorded struct {
	Workload string `yaml:"workload"` // "" for a metric of labs
	Lab      bool   `yaml:"lab"`
	Params   Point  `yaml:"params"` // of the workload: cells must have these, besides the axes
	Metric   string `yaml:"metric"`
	// Scale converts the measured value to the paper's: 0.5 for a one-way time from a round trip.
	Scale float64 `yaml:"scale"`
}

// Figure is a published figure.
type Figure struct {
	At     Point   // metric, stack and every axis
	Value  float64 // base units
	As     string  // the number as it was published, "87,263"
	Source string  // section, table or figure
}

// unpublished matches cells of the experiment that have no figure.
type unpublished struct {
	Where  Point  `yaml:"where"`
	Reason string `yaml:"reason"`
}

// Claim is a sentence of a paper as a formula: ratios of figures lie within bounds, at each of some points.
type Claim struct {
	ID     string `yaml:"id"`
	Group  string `yaml:"group"` // claims of a group are shown together
	Title  string `yaml:"title"`
	Said   string `yaml:"said"` // its place in the paper
	Text   string `yaml:"text"` // in nettoll's words
	Note   string `yaml:"note"`
	Expect string `yaml:"expect"` // the reason why it is not expected to hold here
	Plot   string `yaml:"plot"`   // the place in the paper that shows it without numbers; "" if the suite has the figures
	// Untried is the reason why no measurement here could answer it, in place of ratios; "" if it has ratios
	Untried string `yaml:"untried"`
	// Wire is the rate in Mbit/s of the links that the claim is about. A run whose links between hosts are faster, or have
	// no rate, does not try it. 0: the claim is about any links.
	Wire float64 `yaml:"wire"`
	// Plugins are the network plugins that the claim is about, by the names of their images ("cilium", "calico"): one of
	// them suffices. A run on a cluster with another one, or with one that is not known, does not try it. nil: the claim
	// is about any network.
	Plugins []string `yaml:"plugins"`
	// Kernel are the parts whose work the kernel does in the claim. A run in which a process does that of one of them does
	// not try the claim. nil: it is about any implementation.
	Kernel []string `yaml:"kernel"`
	Each   Space    `yaml:"each"`
	Ratios []Ratio  `yaml:"ratios"`
}

// Ratio is a ratio of products of figures, with its bounds. A term gives some coordinates of its point; those of the
// claim complete it.
type Ratio struct {
	As     string  `yaml:"as"` // in words; required unless it is one figure over another
	Over   []Point `yaml:"over"`
	Under  []Point `yaml:"under"`
	Factor float64 `yaml:"factor"` // 0: 1
	Above  float64 `yaml:"above"`  // 0: any
	Below  float64 `yaml:"below"`  // 0: any
}

// Point gives each coordinate a value: metric, stack, and axes.
type Point map[string]string

// Space gives each coordinate several values, which are crossed.
type Space map[string][]string

// UnmarshalYAML reads a map of single values.
func (p *Point) UnmarshalYAML(unmarshal func(any) error) error {
	var raw map[string]any
	if err := unmarshal(&raw); err != nil {
		return err
	}
	*p = Point{}
	for k, v := range raw {
		text, err := single(v)
		if err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		(*p)[k] = text
	}
	return nil
}

// UnmarshalYAML reads a map of values and of lists of them.
func (s *Space) UnmarshalYAML(unmarshal func(any) error) error {
	var raw map[string]any
	if err := unmarshal(&raw); err != nil {
		return err
	}
	*s = Space{}
	for k, v := range raw {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		if len(list) == 0 {
			return fmt.Errorf("%s is an empty list", k)
		}
		for _, x := range list {
			text, err := single(x)
			if err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
			(*s)[k] = append((*s)[k], text)
		}
	}
	return nil
}

func single(v any) (string, error) {
	switch v.(type) {
	case string, bool, int64, uint64, float64:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("%v is not a single value", v)
}

// Names of the coordinates that every figure has.
const (
	metricOf = "metric"
	stackOf  = "stack"
)

// Names returns the names of all suites.
func Names() []string { return namesIn(folders) }

func namesIn(files fs.FS) []string {
	found, _ := fs.Glob(files, "*/suite.yaml") // fails for a bad pattern only
	for i, f := range found {
		found[i] = path.Dir(f)
	}
	return found
}

// Summary returns a suite's description in a line; "" if no suite has the name. It reads the experiment alone.
func Summary(name string) string {
	_, line, _ := summarised(folders, name)
	return line
}

// summarised returns the experiment of a suite and the comment in its first line.
func summarised(files fs.FS, name string) (text []byte, line string, err error) {
	if text, err = fs.ReadFile(files, path.Join(name, "experiment.yaml")); err != nil {
		return nil, "", err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	line, ok := strings.CutPrefix(first, "# ")
	if !ok || line == "" {
		return nil, "", fmt.Errorf("experiment.yaml: the first line, %q, is not a comment (needed: a description)", first)
	}
	return text, line, nil
}

// UnknownError is the error about a suite that does not exist.
type UnknownError struct {
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown suite %q (known: %s)", e.Name, strings.Join(e.Known, ", "))
}

// Find returns a suite. Its metrics must be in known and be compared by ratio. The error is an [*UnknownError] if no
// suite has the name.
func Find(name string, known measure.Vocabulary) (*Suite, error) {
	if names := Names(); !slices.Contains(names, name) {
		return nil, &UnknownError{name, names}
	}
	return read(folders, name, known)
}

// read reads a suite from its folder.
func read(files fs.FS, name string, known measure.Vocabulary) (*Suite, error) {
	s, err := decode(files, name, known)
	if err != nil {
		return nil, fmt.Errorf("read suite %q: %w", name, err)
	}
	return s, nil
}

func decode(files fs.FS, name string, known measure.Vocabulary) (*Suite, error) {
	s := &Suite{Name: name}
	var err error
	if s.Experiment, s.Summary, err = summarised(files, name); err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(files, path.Join(name, "suite.yaml"))
	if err != nil {
		return nil, err
	}
	var raw struct {
		Paper       Paper         `yaml:"paper"`
		Stacks      []Stack       `yaml:"stacks"`
		Axes        []string      `yaml:"axes"`
		Theirs      []string      `yaml:"theirs"`
		Metrics     []Metric      `yaml:"metrics"`
		Reference   []string      `yaml:"reference"`
		Unpublished []unpublished `yaml:"unpublished"`
		Differs     []string      `yaml:"differs"`
		Checks      []Claim       `yaml:"checks"`
		Claims      []Claim       `yaml:"claims"`
		Drawings    []Drawing     `yaml:"drawings"`
	}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&raw); err != nil {
		return nil, fmt.Errorf("suite.yaml: %w", err)
	}
	s.Paper, s.Stacks, s.Axes, s.Theirs = raw.Paper, raw.Stacks, raw.Axes, raw.Theirs
	s.Metrics, s.Reference = raw.Metrics, raw.Reference
	s.Differs, s.Checks, s.Claims, s.unpublished = raw.Differs, raw.Checks, raw.Claims, raw.Unpublished
	s.Drawings = raw.Drawings
	if err := s.check(known); err != nil {
		return nil, fmt.Errorf("suite.yaml: %w", err)
	}
	text, err = fs.ReadFile(files, path.Join(name, "figures.csv"))
	if err != nil {
		return nil, err
	}
	if s.Figures, err = s.figures(text); err != nil {
		return nil, fmt.Errorf("figures.csv: %w", err)
	}
	return s, nil
}

func (s *Suite) stackNames() []string {
	var names []string
	for _, x := range s.Stacks {
		names = append(names, x.Name)
	}
	return names
}

func (s *Suite) metricNames() []string {
	var names []string
	for _, x := range s.Metrics {
		names = append(names, x.Name)
	}
	return names
}

// coordinates returns the names of the coordinates of a figure, in the order in which people read them.
func (s *Suite) coordinates() []string { return append([]string{metricOf, stackOf}, s.Axes...) }

// check returns an error if a suite is not valid, apart from its figures.
func (s *Suite) check(known measure.Vocabulary) error {
	switch {
	case s.Paper.Title == "" || s.Paper.Authors == "" || s.Paper.In == "":
		return errors.New("paper: missing title, authors or in")
	case len(s.Stacks) == 0 || len(s.Metrics) == 0:
		return errors.New("missing stacks or metrics")
	}
	for what, names := range map[string][]string{
		"stack": s.stackNames(), "metric": s.metricNames(), "coordinate": s.coordinates(),
	} {
		for i, n := range names {
			if n == "" || slices.Contains(names[:i], n) {
				return fmt.Errorf("%s %q is empty or listed twice", what, n)
			}
		}
	}
	for _, x := range s.Theirs {
		if !slices.Contains(s.Axes, x) {
			return fmt.Errorf("theirs: unknown axis %q (known: %s)", x, strings.Join(s.Axes, ", "))
		}
	}
	for _, x := range s.Stacks {
		if len(x.Here) == 0 && x.Missing == "" {
			return fmt.Errorf("stack %q: give its stacks (here), or why the experiment has none (missing), or both", x.Name)
		}
	}
	for _, m := range s.Metrics {
		if d, ok := known.Lookup(m.Here.Metric); !ok || d.Differs() {
			return fmt.Errorf("metric %q: %q is not a metric that is compared by ratio", m.Name, m.Here.Metric)
		}
		if !(m.Unit > 0) || !(m.Here.Scale > 0) || (m.Here.Workload == "") != m.Here.Lab || m.Title == "" {
			return fmt.Errorf("metric %q: give title, unit, here.scale, and either here.workload or here.lab", m.Name)
		}
		if m.Of != "" && (m.Unit != 1 || m.In != "" || !slices.Contains(s.stackNames(), m.Of)) {
			return fmt.Errorf("metric %q: invalid of %q, unit %g, in %q (valid: a stack of %s, unit 1, no in)", m.Name, m.Of,
				m.Unit, m.In, strings.Join(s.stackNames(), ", "))
		}
	}
	for _, r := range s.Reference {
		if !slices.Contains(s.stackNames(), r) {
			return fmt.Errorf("reference: unknown stack %q (known: %s)", r, strings.Join(s.stackNames(), ", "))
		}
	}
	for _, u := range s.unpublished {
		if u.Reason == "" || len(u.Where) == 0 {
			return errors.New("unpublished: missing where or reason")
		}
		for k, v := range u.Where {
			if k == "workload" {
				continue
			}
			if err := s.checkCoordinate(k, v); err != nil {
				return fmt.Errorf("unpublished: %w", err)
			}
		}
	}
	var ids []string
	for _, c := range slices.Concat(s.Checks, s.Claims) {
		if c.ID == "" || slices.Contains(ids, c.ID) {
			return fmt.Errorf("claim %q: its id is empty or already used", c.ID)
		}
		ids = append(ids, c.ID)
		if err := s.checkClaim(c); err != nil {
			return fmt.Errorf("claim %q: %w", c.ID, err)
		}
	}
	return s.checkDrawings(known)
}

func (s *Suite) checkClaim(c Claim) error {
	if c.Title == "" || c.Text == "" || (len(c.Ratios) == 0) == (c.Untried == "") {
		return errors.New("missing title or text, or not one of ratios and untried")
	}
	if !(c.Wire >= 0) || math.IsInf(c.Wire, 0) {
		return fmt.Errorf("wire: %g Mbit/s (valid: 0 or more)", c.Wire)
	}
	for k, values := range c.Each {
		for _, v := range values {
			if err := s.checkCoordinate(k, v); err != nil {
				return err
			}
		}
	}
	for i, r := range c.Ratios {
		b := measure.Bounds{Above: r.Above, Below: r.Below}
		switch {
		case !(r.Above >= 0) || !(r.Below >= 0) || r.Above == 0 && r.Below == 0 || r.Below != 0 && b.Above >= b.Below ||
			math.IsInf(r.Above+r.Below, 0):
			return fmt.Errorf("ratio %d: invalid bounds above %g and below %g (valid: one, or above less than below)", i+1,
				r.Above, r.Below)
		case !(r.Factor >= 0):
			return fmt.Errorf("ratio %d: factor %g is negative", i+1, r.Factor)
		case len(r.Over) == 0:
			return fmt.Errorf("ratio %d: over is empty", i+1)
		case r.As == "" && (len(r.Over) != 1 || len(r.Under) != 1):
			return fmt.Errorf("ratio %d: give a description (as), since it is not one figure over another", i+1)
		}
		for _, t := range slices.Concat(r.Over, r.Under) {
			for k, v := range t {
				if err := s.checkCoordinate(k, v); err != nil {
					return err
				}
			}
			for _, k := range s.coordinates() {
				if t[k] == "" && len(c.Each[k]) == 0 {
					return fmt.Errorf("ratio %d: a term lacks %s", i+1, k)
				}
			}
		}
	}
	return nil
}

// checkCoordinate returns an error if a coordinate is unknown, or if its value is unknown and the valid ones are known.
func (s *Suite) checkCoordinate(name, value string) error {
	known := s.coordinates()
	if !slices.Contains(known, name) {
		return fmt.Errorf("unknown coordinate %q (known: %s)", name, strings.Join(known, ", "))
	}
	switch name {
	case metricOf:
		known = s.metricNames()
	case stackOf:
		known = s.stackNames()
	default:
		return nil
	}
	if !slices.Contains(known, value) {
		return fmt.Errorf("unknown %s %q (known: %s)", name, value, strings.Join(known, ", "))
	}
	return nil
}
