package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/workload"
)

// Parts are the parts an experiment can choose from, in the order in which help lists them.
type Parts struct {
	Networks  []network.Network
	Filters   []filter.Filter
	Runtimes  []runtime.Runtime // the first is the default
	Workloads []workload.Workload
	Drivers   []driver.Driver
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

// Softirq is the probe that sums up the time in soft interrupts.
const Softirq = "softirq"

// Probes lists what cells can be measured with once more, the default, nothing, first.
func Probes() []string { return []string{none, Softirq} }

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
	Plants    []Plant `json:"plants,omitempty"` // study only

	// Source is the file this was read from with what the command line changed in it, as YAML; "" where there is none.
	Source string `json:"-"`

	// Suite is whose experiment this is; "" where it is no suite's.
	Suite string `json:"-"`
}

// Choice is one part with all of its parameters.
type Choice struct {
	Name   string      `json:"name"`
	Params part.Params `json:"params,omitempty"`
}

// Stack is one choice of each kind. A kind that was not chosen is the zero Choice: none, or the default runtime.
type Stack struct {
	Name       string      `json:"name,omitempty"` // as the user calls it; "" for what the factors make
	Network    Choice      `json:"network"`
	Filter     Choice      `json:"filter,omitzero"`
	Tunnel     Choice      `json:"tunnel,omitzero"`
	Encryption Choice      `json:"encryption,omitzero"`
	Runtime    Choice      `json:"runtime,omitzero"`
	Placements []Placement `json:"placements,omitempty"` // where it is measured; nil: wherever the experiment is
}

// Factors are crossed: each combination is a stack, and each stack is measured in each placement with each number of pairs.
type Factors struct {
	Networks    []Choice    `json:"networks,omitempty"`
	Filters     []Choice    `json:"filters,omitempty"`
	Tunnels     []Choice    `json:"tunnels,omitempty"`
	Encryptions []Choice    `json:"encryptions,omitempty"`
	Runtimes    []Choice    `json:"runtimes,omitempty"`
	Placements  []Placement `json:"placements"`
	Hosts       []int       `json:"hosts,omitempty"` // of cross-host labs; none: Experiment.Hosts
	Pairs       []int       `json:"pairs"`
	Families    []string    `json:"families"`
	Affinities  []string    `json:"affinities"`
}

// Load is one workload, or a mix of several, and the placements in which it runs.
type Load struct {
	Choice                 // of a mix: its name is "mix"
	Mix        []Member    `json:"mix,omitempty"`        // of a mix: its members, at least two
	Driver     string      `json:"driver,omitempty"`     // whose program drives it; "": nettoll's own engine
	Placements []Placement `json:"placements,omitempty"` // nil: all of the experiment's
	Pairs      []int       `json:"pairs,omitempty"`      // of the experiment's, those with which it runs; nil: all
}

// Design is how precisely to measure.
type Design struct {
	Precision   float64       `json:"precision"`   // share: half-width of the 95 % interval at which a cell may leave
	Time        time.Duration `json:"time"`        // of measuring
	Generations int           `json:"generations"` // at least
	Trial       time.Duration `json:"trial"`       // 0: the workload's own
	Seed        uint64        `json:"seed"`
	Probe       string        `json:"probe,omitempty"` // what cells are measured with once more, in trials of their own; "": nothing
}

// Tune is what all stacks share.
type Tune struct {
	Congestion string `json:"congestion_control"` // "auto" or a name
	MTU        int    `json:"mtu"`                // bytes
}

// Plant adds a known delay to the sinks of a twin's cells: the study's way of knowing the truth.
type Plant struct {
	Group string        `json:"group"`
	Delay time.Duration `json:"delay"`
}

// none is what is chosen of a kind that is left out.
const none = "none"

// name returns the name of a choice, none where nothing was chosen.
func (c Choice) name() string {
	if c.Name == "" {
		return none
	}
	return c.Name
}

// UnknownError says that a name is not one of those known.
type UnknownError struct {
	Kind  string // "network"
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown %s %q (known: %s)", e.Kind, e.Name, strings.Join(e.Known, ", "))
}

func find[T any](kind, name string, all []T, nameOf func(T) string) (T, error) {
	known := make([]string, len(all))
	for i, x := range all {
		if known[i] = nameOf(x); known[i] == name {
			return x, nil
		}
	}
	var zero T
	return zero, &UnknownError{Kind: kind, Name: name, Known: known}
}

// Network returns the network of that name.
func (p Parts) Network(name string) (network.Network, error) {
	return find("network", name, p.Networks, func(n network.Network) string { return n.Describe().Name })
}

// Filter returns the filter of that name, nil for none.
func (p Parts) Filter(name string) (filter.Filter, error) {
	if name == "" || name == none {
		return nil, nil //nolint:nilnil // none is a choice
	}
	return find("filter", name, p.Filters, func(f filter.Filter) string { return f.Describe().Name })
}

// Runtime returns the runtime of that name; "" is the first.
func (p Parts) Runtime(name string) (runtime.Runtime, error) {
	if name == "" && len(p.Runtimes) > 0 {
		return p.Runtimes[0], nil
	}
	return find("runtime", name, p.Runtimes, func(r runtime.Runtime) string { return r.Describe().Name })
}

// Workload returns the workload of that name.
func (p Parts) Workload(name string) (workload.Workload, error) {
	return find("workload", name, p.Workloads, func(w workload.Workload) string { return w.Describe().Name })
}

// Driver returns the driver of that name.
func (p Parts) Driver(name string) (driver.Driver, error) {
	return find("driver", name, p.Drivers, func(d driver.Driver) string { return d.Describe().Name })
}

// stacks returns what is compared: the baseline first, then what the factors make of each other, then the named ones. A combination that is the
// baseline once more is left out, as the twin is that already; a named stack is not.
func (e Experiment) stacks(parts Parts) ([]Stack, error) {
	one := func(list []Choice) []Choice {
		if len(list) == 0 {
			return []Choice{{}}
		}
		return list
	}
	all := []Stack{e.Baseline}
	ids := map[string]bool{}
	base, err := parts.stackID(e.Baseline)
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	ids[base] = true
	add := func(s Stack) error {
		id, err := parts.stackID(s)
		if err != nil {
			return err
		}
		if ids[id] && s.Name != "" {
			return fmt.Errorf("stack %q: another one is called so", id)
		}
		if !ids[id] {
			all = append(all, s)
		}
		ids[id] = true
		return nil
	}
	for _, n := range e.Factors.Networks {
		for _, f := range one(e.Factors.Filters) {
			for _, t := range one(e.Factors.Tunnels) {
				for _, c := range one(e.Factors.Encryptions) {
					for _, r := range one(e.Factors.Runtimes) {
						if err := add(Stack{Network: n, Filter: f, Tunnel: t, Encryption: c, Runtime: r}); err != nil {
							return nil, err
						}
					}
				}
			}
		}
	}
	for _, s := range e.Stacks {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// stackID is the stack's part of a cell id: its name, or "bridge+nftables(rules=1000)" with what differs from none and from the defaults.
func (p Parts) stackID(s Stack) (string, error) {
	if s.Name != "" {
		return s.Name, nil
	}
	n, err := p.Network(s.Network.Name)
	if err != nil {
		return "", err
	}
	d := n.Describe()
	params, err := d.Params.Resolve("network "+d.Name, s.Network.Params)
	if err != nil {
		return "", err
	}
	id := d.Params.Short(d.Name, params)
	list := []string{id}
	if f, err := p.Filter(s.Filter.Name); err != nil {
		return "", err
	} else if f != nil {
		d := f.Describe()
		params, err := d.Params.Resolve("filter "+d.Name, s.Filter.Params)
		if err != nil {
			return "", err
		}
		list = append(list, d.Params.Short(d.Name, params))
	}
	for _, c := range []Choice{s.Tunnel, s.Encryption} {
		if c.name() != none {
			list = append(list, c.Name)
		}
	}
	id = strings.Join(list, "+")
	r, err := p.Runtime(s.Runtime.Name)
	if err != nil {
		return "", err
	}
	if name := r.Describe().Name; name != p.Runtimes[0].Describe().Name {
		id += "@" + name
	}
	return id, nil
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
