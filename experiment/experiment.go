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
	"github.com/nettoll/nettoll/proof/threat"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
)

// Parts holds the parts that an experiment can use, in the order of help.
type Parts struct {
	Kinds     stack.Kinds // a stack has a part of each
	Workloads []workload.Workload
	Drivers   []driver.Driver
	Probes    []probe.Probe
	Metrics   measure.Vocabulary // of all of them
	// Cluster has what stacks on a Kubernetes cluster are made of; nil: they cannot be there.
	Cluster stack.Kinds
	// there says that Kinds are those of Cluster, see [Parts.For].
	there bool
}

// Placement is the placement of the two containers of a pair.
type Placement string

// The placements.
const (
	SameHost  Placement = "same-host"  // all pairs on host 1
	CrossHost Placement = "cross-host" // sources on host i, sinks on host i+1 (mod N)
)

// Placements lists them.
func Placements() []Placement { return []Placement{SameHost, CrossHost} }

// Affinities lists the ways to assign sources and sinks to CPUs (design, "affinity"), the default first.
func Affinities() []string { return []string{"split", "same", "free"} }

// The ways in which CPUs behave when they are idle.
const (
	IdleAuto  = "auto"  // [IdleAwake] if that is possible, otherwise [IdleDeep]
	IdleAwake = "awake" // they stay awake
	IdleDeep  = "deep"  // they sleep as configured on the machine
)

// Idles lists the ways, the default first.
func Idles() []string { return []string{IdleAuto, IdleAwake, IdleDeep} }

// ProbeNames lists the probes with which cells can be measured a second time. The first one is the default, none.
func (p Parts) ProbeNames() []string {
	names := []string{stack.None}
	for _, one := range p.Probes {
		names = append(names, one.Describe().Name)
	}
	return names
}

// probe returns the probe with a name; nil for none.
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

// Experiment is a user's request.
type Experiment struct {
	Name  string `json:"name"`
	Hosts int    `json:"hosts"` // of a cross-host lab
	// Clusters have them as their nodes; nil: they are namespaces of this machine. If there are several, each stack says
	// on which of them it is, see [stack.OnCluster].
	Clusters  []Cluster `json:"clusters,omitempty"`
	Baseline  Stack     `json:"baseline"`
	Factors   Factors   `json:"factors"`
	Stacks    []Stack   `json:"stacks,omitempty"` // in addition to those that the factors make
	Workloads []Load    `json:"workloads"`
	Design    Design    `json:"design"`
	Tune      Tune      `json:"tune"`
	Proof     Proof     `json:"proof,omitzero"`
	// Underlay is the network that joins the hosts of cross-host labs.
	Underlay network.Medium `json:"underlay,omitzero"`
	Plants   []Plant        `json:"plants,omitempty"` // study only

	// Only lists the cells to measure, by id, with the cells that they need, see [Resolved.Keep]; nil: all.
	Only []string `json:"only,omitempty"`

	// Source is the file from which the experiment was read or, if the command line changed something, the resulting
	// experiment, as YAML; "" if there is neither.
	Source string `json:"-"`

	// Implied explains the choice of the baseline, in a sentence without its full stop; "" if the experiment names it,
	// or if it is the default.
	Implied string `json:"implied_baseline,omitempty"`

	// Suite is the name of the suite that the experiment belongs to; "" if it belongs to none.
	Suite string `json:"-"`
}

// Choice is a workload with its parameters.
type Choice struct {
	Name   string      `json:"name"`
	Params part.Params `json:"params,omitempty"`
}

// key returns a text that is equal for equal choices.
func (c Choice) key() string {
	var given part.List
	for _, name := range slices.Sorted(maps.Keys(c.Params)) {
		given = append(given, part.Param{Name: name})
	}
	return given.ID(c.Name, c.Params)
}

// Stack is a stack that an experiment measures.
type Stack struct {
	Name       string      `json:"name,omitempty"`       // the name given by the user; "" for stacks that the factors make
	Parts      stack.Stack `json:"parts"`                // at most a part of each kind
	Placements []Placement `json:"placements,omitempty"` // where it is measured; nil: in all placements of the experiment
	Settings
}

// Settings are the settings of a stack that differ from those of the experiment, see [Tune].
type Settings struct {
	MTU        int    `json:"mtu,omitempty"`                // bytes; 0: that of the experiment
	Congestion string `json:"congestion_control,omitempty"` // "": that of the experiment
}

// Factors are crossed: each combination is a stack. Each stack is measured in each placement, with each number of
// pairs.
type Factors struct {
	Parts      []stack.Stack `json:"parts,omitempty"` // the parts of each kind that has any, in the order of the kinds
	Placements []Placement   `json:"placements"`
	Hosts      []int         `json:"hosts,omitempty"` // of cross-host labs; if empty, Experiment.Hosts
	Pairs      []int         `json:"pairs"`
	Families   []string      `json:"families"`
	Affinities []string      `json:"affinities"`
	Idles      []string      `json:"idles,omitempty"` // if empty, IdleAuto
	// MTUs and Congestions are crossed with all stacks, including the baseline. The first value of each is that of
	// Tune; nil: there are no others.
	MTUs        []int    `json:"mtus,omitempty"`
	Congestions []string `json:"congestion_controls,omitempty"`
}

// Load is one workload, or a mix of several, and the placements in which it runs.
type Load struct {
	Choice          // for a mix, its name is "mix"
	Mix    []Member `json:"mix,omitempty"` // the members of a mix, at least two
	// for a mix: each member is also measured alone, on the same pairs of the same labs
	Alone      bool        `json:"alone,omitempty"`
	Driver     string      `json:"driver,omitempty"`     // the program that drives it; "": nettoll's own engine
	Placements []Placement `json:"placements,omitempty"` // nil: all of the experiment's
	Pairs      []int       `json:"pairs,omitempty"`      // of the experiment's, those with which it runs; nil: all
	// Trial is the length of its trials; 0: that of the design. Study only.
	Trial time.Duration `json:"trial,omitempty"`
}

// Design says how precisely to measure.
type Design struct {
	Precision float64 `json:"precision"` // share: half-width of the 95 % interval at which a cell may leave
	// Decided lets cells also leave when their verdict is decided, or when the claims of a suite that need them are
	Decided bool `json:"decided,omitempty"`
	// share within which two stacks count as equal; 0: the default of [measure.Design.Equal]
	Margin float64 `json:"margin,omitempty"`
	// share of a trial for which other programs may have the CPU before its block is set aside; 0: no block is
	Spoiled     float64       `json:"spoiled"`
	Time        time.Duration `json:"time"`        // of measuring
	Generations int           `json:"generations"` // at least
	Trial       time.Duration `json:"trial"`       // 0: the workload's own
	Seed        uint64        `json:"seed"`
	// the probe with which cells are measured again, in trials of their own; "": none
	Probe string `json:"probe,omitempty"`
	// Scattered makes a block visit all cells in one random order, across groups. Study only.
	Scattered bool `json:"scattered,omitempty"`
}

// Proof is how thoroughly labs are proved.
type Proof struct {
	// Budget is the share of the measuring time for trying who reaches whom; 0: it is not tried.
	Budget float64 `json:"budget"`
	// Attacks are made on each lab after its last proof, in the order of [Attacks]; nil: none is made.
	Attacks []threat.Attack `json:"attacks,omitempty"`
}

// Attacks lists all attacks in the order in which they are made: from inside a lab, then from the wire between hosts.
func Attacks() []threat.Attack { return slices.Concat(threat.All(), threat.OnWire()) }

// Words for several attacks, and for none.
const (
	AllAttacks    = "all"
	InsideAttacks = "inside"
	WireAttacks   = "wire"
	NoAttacks     = "none"
)

// AttackWords are what a choice of attacks may be besides their names, and what each stands for.
func AttackWords() [][2]string {
	return [][2]string{
		{AllAttacks, "all of them"},
		{InsideAttacks, "those from inside a lab"},
		{WireAttacks, "those from the wire between hosts"},
		{NoAttacks, "none of them"},
	}
}

// ChosenAttacks returns the attacks with these names, and those that [AttackWords] stand for. Each is returned once, in
// the order of [Attacks]. The error is an [UnknownError] if a name is unknown.
func ChosenAttacks(names []string) ([]threat.Attack, error) {
	var known []string
	for _, w := range AttackWords() {
		known = append(known, w[0])
	}
	for _, a := range Attacks() {
		known = append(known, string(a))
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w%s", &UnknownError{Kind: "attack", Name: name, Known: known}, part.Meant(name, known))
		}
	}
	switch {
	case slices.Contains(names, NoAttacks) && len(names) > 1:
		return nil, fmt.Errorf("%q stands beside other attacks (valid: %s alone, or names of attacks)", NoAttacks, NoAttacks)
	case slices.Contains(names, NoAttacks):
		return nil, nil
	}
	return slices.DeleteFunc(Attacks(), func(a threat.Attack) bool {
		group := InsideAttacks
		if slices.Contains(threat.OnWire(), a) {
			group = WireAttacks
		}
		return !slices.ContainsFunc(names, func(name string) bool {
			return slices.Contains([]string{string(a), group, AllAttacks}, name)
		})
	}), nil
}

// Time returns how long a run with so much measuring time may try who reaches whom: its share, but 2 s at least.
func (p Proof) Time(measuring time.Duration) time.Duration {
	const least = 2 * time.Second
	if p.Budget == 0 {
		return 0
	}
	return max(least, time.Duration(p.Budget*float64(measuring)))
}

// Judged returns the settings on which verdicts depend.
func (d Design) Judged() measure.Design {
	return measure.Design{Precision: d.Precision, Decided: d.Decided, Margin: d.Margin}
}

// Tune holds the settings of all stacks that have none of their own.
type Tune struct {
	Congestion string `json:"congestion_control"` // "auto" or a name
	MTU        int    `json:"mtu"`                // bytes
}

// Plant adds a known delay to the sinks of a twin's cells, so that the study knows the true effect.
type Plant struct {
	Group string        `json:"group"`
	Delay time.Duration `json:"delay"`
}

// UnknownError reports that a name is not known, with the known ones.
type UnknownError = part.UnknownError

func find[T any](kind, name string, all []T, nameOf func(T) string) (T, error) {
	return part.Find(kind, name, all, nameOf)
}

// Workload returns the workload with that name.
func (p Parts) Workload(name string) (workload.Workload, error) {
	return find("workload", name, p.Workloads, func(w workload.Workload) string { return w.Describe().Name })
}

// Driver returns the driver with that name.
func (p Parts) Driver(name string) (driver.Driver, error) {
	return find("driver", name, p.Drivers, func(d driver.Driver) string { return d.Describe().Name })
}

// stacks returns the complete stacks to compare: first the baseline, then those that the factors make, then the named
// ones. A combination equal to the baseline is left out, because the twin already measures it. A named stack is not
// left out.
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

// A calledStack is a complete stack with its name in ids.
type calledStack struct {
	Stack
	id      string
	crossed bool // the factors made it
}

// own returns the settings that differ from those of the experiment.
func (e Experiment) own(s Settings) Settings {
	if s.MTU == e.Tune.MTU {
		s.MTU = 0
	}
	if s.Congestion == e.Tune.Congestion {
		s.Congestion = ""
	}
	return s
}

// settings returns the settings with which each stack of the factors is measured, first those of the experiment.
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

// cross returns the combinations of the factors; the last kind changes fastest. It returns nothing if a kind without a
// default has no part.
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

// Of returns the choices of a kind, by the kind's name.
func (f Factors) Of(kind string) []stack.Choice {
	for _, choices := range f.Parts {
		if choices[0].Kind.Describe().Name == kind {
			return choices
		}
	}
	return nil
}

// Add adds a choice to those of its kind. The order of the kinds stays.
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

// A takenError reports that a stack has the name of another stack: the baseline, or one that the factors make.
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

// stackID returns the name of a stack in ids: its own name, or its parts that are not none, with parameters that differ
// from their defaults, and its settings.
func (p Parts) stackID(s Stack) string {
	if s.Name != "" {
		return s.Name
	}
	return stack.WithSettings(p.Kinds.ID(s.Parts), s.list()...)
}

// hosts returns the numbers of hosts of labs in a placement.
func (e Experiment) hosts(p Placement) []int {
	switch {
	case p != CrossHost:
		return []int{1}
	case e.Factors.Hosts != nil:
		return e.Factors.Hosts
	}
	return []int{e.Hosts}
}

// MostHosts returns the largest number of hosts of a lab of the experiment.
func (e Experiment) MostHosts() int {
	most := 1
	for _, p := range e.Factors.Placements {
		most = max(most, slices.Max(e.hosts(p)))
	}
	return most
}

// at reports whether the stack is measured in a placement.
func (s Stack) at(p Placement) bool { return s.Placements == nil || slices.Contains(s.Placements, p) }
