package experiment

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
)

// Parts are the parts an experiment can choose from, in the order in which help lists them.
type Parts struct {
	Kinds     stack.Kinds // what a stack has a part of each of
	Workloads []workload.Workload
	Drivers   []driver.Driver
	Probes    []probe.Probe
	Metrics   measure.Vocabulary // of all of them
}

// Placement says where the two containers of a pair are.
type Placement string

// The placements.
const (
	SameHost  Placement = "same-host"  // all pairs on host 1
	CrossHost Placement = "cross-host" // sources on host i, sinks on host i+1 (mod N)
)

// Placements lists them.
func Placements() []Placement { return []Placement{SameHost, CrossHost} }

// Affinities lists the ways to place sources and sinks on CPUs (design, "affinity"), the default first.
func Affinities() []string { return []string{"split", "same", "free"} }

// The ways in which CPUs wait for work.
const (
	IdleAuto  = "auto"  // [IdleAwake] where that is possible, else [IdleDeep]
	IdleAwake = "awake" // they stay awake
	IdleDeep  = "deep"  // they sleep as the machine has it
)

// Idles lists them, the default first.
func Idles() []string { return []string{IdleAuto, IdleAwake, IdleDeep} }

// ProbeNames lists what cells can be measured with once more, the default, nothing, first.
func (p Parts) ProbeNames() []string {
	names := []string{stack.None}
	for _, one := range p.Probes {
		names = append(names, one.Describe().Name)
	}
	return names
}

// probe returns the probe of a name; nil for none.
func (p Parts) probe(name string) (probe.Probe, error) {
	if name == "" {
		return nil, nil
	}
	for _, one := range p.Probes {
		if one.Describe().Name == name {
			return one, nil
		}
	}
	return nil, &UnknownError{Kind: "probe", Name: name, Known: p.ProbeNames()}
}

// Families lists the address families, the default first.
func Families() []string { return []string{"ipv4", "ipv6"} }

// Experiment is what a user asks for.
type Experiment struct {
	Name      string  `json:"name"`
	Hosts     int     `json:"hosts"` // local hosts of a cross-host lab
	Baseline  Stack   `json:"baseline"`
	Factors   Factors `json:"factors"`
	Stacks    []Stack `json:"stacks,omitempty"` // beside those that the factors make
	Workloads []Load  `json:"workloads"`
	Design    Design  `json:"design"`
	Tune      Tune    `json:"tune"`
	Proof     Proof   `json:"proof,omitzero"`
	// Underlay is what joins the hosts of cross-host labs.
	Underlay network.Medium `json:"underlay,omitzero"`
	Plants   []Plant        `json:"plants,omitempty"` // study only

	// Only are the cells that are measured, by id, and what they need, see [Resolved.Keep]; nil: all.
	Only []string `json:"only,omitempty"`

	// Source is the file this was read from or, if the command line changed something, the experiment that came of it, as
	// YAML; "" where there is none.
	Source string `json:"-"`

	// Implied says why the baseline is what it is, in a sentence without its full stop; "" if the experiment names it, or
	// if it is the default.
	Implied string `json:"implied_baseline,omitempty"`

	// Suite is whose experiment this is; "" where it is no suite's.
	Suite string `json:"-"`
}

// Choice is a workload with its parameters.
type Choice struct {
	Name   string      `json:"name"`
	Params part.Params `json:"params,omitempty"`
}

// key is the same for choices that are given alike.
func (c Choice) key() string {
	var given part.List
	for _, name := range slices.Sorted(maps.Keys(c.Params)) {
		given = append(given, part.Param{Name: name})
	}
	return given.ID(c.Name, c.Params)
}

// Stack is a stack that an experiment measures.
type Stack struct {
	Name       string      `json:"name,omitempty"`       // as the user calls it; "" for what the factors make
	Parts      stack.Stack `json:"parts"`                // at most a part of each kind
	Placements []Placement `json:"placements,omitempty"` // where it is measured; nil: wherever the experiment is
	Settings
}

// Settings are what a stack has otherwise than the experiment, see [Tune].
type Settings struct {
	MTU        int    `json:"mtu,omitempty"`                // bytes; 0: that of the experiment
	Congestion string `json:"congestion_control,omitempty"` // "": that of the experiment
}

// Factors are crossed: each combination is a stack, and each stack is measured in each placement with each number of
// pairs.
type Factors struct {
	Parts      []stack.Stack `json:"parts,omitempty"` // the parts of each kind that has any, in the order of the kinds
	Placements []Placement   `json:"placements"`
	Hosts      []int         `json:"hosts,omitempty"` // of cross-host labs; none: Experiment.Hosts
	Pairs      []int         `json:"pairs"`
	Families   []string      `json:"families"`
	Affinities []string      `json:"affinities"`
	Idles      []string      `json:"idles,omitempty"` // none: IdleAuto
	// MTUs and Congestions are crossed with the stacks, the baseline among them. The first of each is that of Tune; nil:
	// there is no other.
	MTUs        []int    `json:"mtus,omitempty"`
	Congestions []string `json:"congestion_controls,omitempty"`
}

// Load is one workload, or a mix of several, and the placements in which it runs.
type Load struct {
	Choice          // of a mix: its name is "mix"
	Mix    []Member `json:"mix,omitempty"` // of a mix: its members, at least two
	// of a mix: each member is also measured alone, on the same pairs of the same labs
	Alone      bool        `json:"alone,omitempty"`
	Driver     string      `json:"driver,omitempty"`     // whose program drives it; "": nettoll's own engine
	Placements []Placement `json:"placements,omitempty"` // nil: all of the experiment's
	Pairs      []int       `json:"pairs,omitempty"`      // of the experiment's, those with which it runs; nil: all
	// Trial is the length of its trials; 0: that of the design. Study only.
	Trial time.Duration `json:"trial,omitempty"`
}

// Design is how precisely to measure.
type Design struct {
	Precision float64 `json:"precision"` // share: half-width of the 95 % interval at which a cell may leave
	// Decided has cells leave when their verdict is decided, too, or the claims of a suite that need them
	Decided bool `json:"decided,omitempty"`
	// share within which two stacks count as equal; 0: the default of [measure.Design.Equal]
	Margin float64 `json:"margin,omitempty"`
	// share of a trial for which other programs may have the CPU before its block is set aside; 0: none is
	Spoiled     float64       `json:"spoiled"`
	Time        time.Duration `json:"time"`        // of measuring
	Generations int           `json:"generations"` // at least
	Trial       time.Duration `json:"trial"`       // 0: the workload's own
	Seed        uint64        `json:"seed"`
	// what cells are measured with once more, in trials of their own; "": nothing
	Probe string `json:"probe,omitempty"`
	// Scattered has a block visit all cells in one random order, also those of different groups. Study only.
	Scattered bool `json:"scattered,omitempty"`
}

// Proof is how thoroughly labs are proved.
type Proof struct {
	// Budget is the share of the measuring time for trying who reaches whom; 0: it is not tried.
	Budget float64 `json:"budget"`
}

// Judged returns what verdicts depend on.
func (d Design) Judged() measure.Design {
	return measure.Design{Precision: d.Precision, Decided: d.Decided, Margin: d.Margin}
}

// Tune is what all stacks have that have no settings of their own.
type Tune struct {
	Congestion string `json:"congestion_control"` // "auto" or a name
	MTU        int    `json:"mtu"`                // bytes
}

// Plant adds a known delay to the sinks of a twin's cells: the study's way of knowing the truth.
type Plant struct {
	Group string        `json:"group"`
	Delay time.Duration `json:"delay"`
}

// UnknownError says that a name is not one of those known.
type UnknownError = part.UnknownError

func find[T any](kind, name string, all []T, nameOf func(T) string) (T, error) {
	return part.Find(kind, name, all, nameOf)
}

// Workload returns the workload of that name.
func (p Parts) Workload(name string) (workload.Workload, error) {
	return find("workload", name, p.Workloads, func(w workload.Workload) string { return w.Describe().Name })
}

// Driver returns the driver of that name.
func (p Parts) Driver(name string) (driver.Driver, error) {
	return find("driver", name, p.Drivers, func(d driver.Driver) string { return d.Describe().Name })
}

// stacks returns what is compared, each stack complete: the baseline first, then what the factors make of each other,
// then the named ones. A combination that is the baseline once more is left out, as the twin is that already; a named
// stack is not.
func (e Experiment) stacks(parts Parts) ([]calledStack, error) {
	base := e.Baseline
	var err error
	if base.Parts, err = parts.Kinds.Complete(base.Parts); err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	base.Settings = e.own(base.Settings)
	all := []calledStack{{Stack: base, id: parts.stackID(base)}}
	ids := map[string]bool{all[0].id: true}
	add := func(s Stack, crossed bool) error {
		if s.Parts, err = parts.Kinds.Complete(s.Parts); err != nil {
			return err
		}
		s.Settings = e.own(s.Settings)
		id := parts.stackID(s)
		if ids[id] && s.Name != "" {
			return &takenError{name: id, baseline: id == all[0].id}
		}
		if !ids[id] {
			all = append(all, calledStack{s, id, crossed})
		}
		ids[id] = true
		return nil
	}
	crossed := e.Factors.cross(parts.Kinds)
	if base.Name == "" && base.Settings == (Settings{}) {
		crossed = slices.Insert(crossed, 0, base.Parts)
	}
	for _, s := range crossed {
		for _, own := range e.Factors.settings() {
			if err := add(Stack{Parts: s, Settings: own}, true); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range e.Stacks {
		if err := add(s, false); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// A calledStack is a complete stack and what it is called in ids.
type calledStack struct {
	Stack
	id      string
	crossed bool // the factors made it
}

// own leaves of settings those that are not the experiment's.
func (e Experiment) own(s Settings) Settings {
	if s.MTU == e.Tune.MTU {
		s.MTU = 0
	}
	if s.Congestion == e.Tune.Congestion {
		s.Congestion = ""
	}
	return s
}

// settings returns what each stack of the factors is measured with: first that of the experiment.
func (f Factors) settings() []Settings {
	mtus, congestions := []int{0}, []string{""}
	if len(f.MTUs) > 0 {
		mtus = append(mtus, f.MTUs[1:]...)
	}
	if len(f.Congestions) > 0 {
		congestions = append(congestions, f.Congestions[1:]...)
	}
	var all []Settings
	for _, mtu := range mtus {
		for _, congestion := range congestions {
			all = append(all, Settings{mtu, congestion})
		}
	}
	return all
}

// cross returns what the factors make of each other, the last kind the fastest. It is nothing without a part of each
// kind that has no default.
func (f Factors) cross(kinds stack.Kinds) []stack.Stack {
	for _, kind := range kinds {
		if d := kind.Describe(); d.Default == "" && f.Of(d.Name) == nil {
			return nil
		}
	}
	all := []stack.Stack{nil}
	for _, choices := range f.Parts {
		var next []stack.Stack
		for _, s := range all {
			for _, c := range choices {
				next = append(next, s.With(c))
			}
		}
		all = next
	}
	return all
}

// Of returns the choices of a kind, by its name.
func (f Factors) Of(kind string) []stack.Choice {
	for _, choices := range f.Parts {
		if choices[0].Kind.Describe().Name == kind {
			return choices
		}
	}
	return nil
}

// Add adds a choice to those of its kind. The kinds stay in their order.
func (f *Factors) Add(kinds stack.Kinds, c stack.Choice) {
	place := func(kind stack.Kind) int {
		return slices.IndexFunc(kinds, func(k stack.Kind) bool { return k.Describe().Name == kind.Describe().Name })
	}
	i := slices.IndexFunc(f.Parts, func(of stack.Stack) bool { return place(of[0].Kind) >= place(c.Kind) })
	switch {
	case i < 0:
		f.Parts = append(f.Parts, stack.Stack{c})
	case place(f.Parts[i][0].Kind) == place(c.Kind):
		f.Parts[i] = append(f.Parts[i], c)
	default:
		f.Parts = slices.Insert(f.Parts, i, stack.Stack{c})
	}
}

// A takenError says that a stack's name is that of another stack: the baseline, or one that the factors make.
type takenError struct {
	name     string
	baseline bool
}

func (e *takenError) Error() string {
	by := "a stack of the factors"
	if e.baseline {
		by = "the baseline"
	}
	return fmt.Sprintf("stack %q is already defined as %s", e.name, by)
}

// stackID is what a stack is called in ids: its name, or its parts with what differs from none and from the defaults,
// and its settings.
func (p Parts) stackID(s Stack) string {
	if s.Name != "" {
		return s.Name
	}
	return stack.WithSettings(p.Kinds.ID(s.Parts), s.list()...)
}

// hosts returns how many container hosts the labs of a placement have.
func (e Experiment) hosts(p Placement) []int {
	switch {
	case p != CrossHost:
		return []int{1}
	case e.Factors.Hosts != nil:
		return e.Factors.Hosts
	}
	return []int{e.Hosts}
}

// at says whether the stack is measured in a placement.
func (s Stack) at(p Placement) bool { return s.Placements == nil || slices.Contains(s.Placements, p) }
