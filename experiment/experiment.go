package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/workload"
)

// Parts are the parts an experiment can choose from, in the order in which help lists them.
type Parts struct {
	Networks  []network.Network
	Workloads []workload.Workload
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

// Experiment is what a user asks for.
type Experiment struct {
	Name      string   `json:"name"`
	Hosts     int      `json:"hosts"` // local hosts of a cross-host lab
	Networks  []string `json:"networks"`
	Baseline  string   `json:"baseline"` // network
	Workloads []Load   `json:"workloads"`
	Pairs     []int    `json:"pairs"`
	Affinity  string   `json:"affinity"`
	Design    Design   `json:"design"`
	Tune      Tune     `json:"tune"`
	Plants    []Plant  `json:"plants,omitempty"` // study only
}

// Load is one workload and the placements in which it runs.
type Load struct {
	Workload   string      `json:"workload"` // NAME or NAME(parameter=value,…)
	Placements []Placement `json:"placements"`
}

// Design is how precisely to measure.
type Design struct {
	Precision   float64       `json:"precision"`   // share: half-width of the 95 % interval at which a cell may leave
	Time        time.Duration `json:"time"`        // of measuring
	Generations int           `json:"generations"` // at least
	Trial       time.Duration `json:"trial"`       // 0: the workload's own
	Seed        uint64        `json:"seed"`
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

// Default is the experiment of `nettoll run` without an argument. Round trips on one host are measured in both modes: spinning is what
// tells two paths apart, waiting is what an application sees of it.
func Default() Experiment {
	return Experiment{
		Name:     "default",
		Hosts:    2,
		Networks: []string{"host", "bridge"},
		Baseline: "host",
		Workloads: []Load{
			{Workload: "udp-rr(mode=spin)", Placements: []Placement{SameHost, CrossHost}},
			{Workload: "udp-rr(mode=wait)", Placements: []Placement{SameHost}},
			{Workload: "tcp-stream", Placements: []Placement{SameHost}},
		},
		Pairs:    []int{1},
		Affinity: "split",
		Design:   Design{Precision: 0.02, Time: 40 * time.Second, Generations: 5, Seed: 1},
		Tune:     Tune{Congestion: "auto", MTU: 1500},
	}
}

// Cell is a cell to measure: the record's view of it and what control needs to run it.
type Cell struct {
	measure.Cell
	Lab      int // index into Resolved.Labs
	Workload workload.Workload
	Params   part.Params
	Trial    time.Duration
	Plant    time.Duration
}

// Lab is what has to be built: one stack × placement × pairs, or the twin's.
type Lab struct {
	ID        string // "bridge/same-host/1"; of a twin "host/same-host/1#2"
	Network   network.Network
	Placement Placement
	Pairs     int
	Hosts     int
}

// Omission is a combination that was left out, and why.
type Omission struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}

// Resolved is an experiment as it will be run.
type Resolved struct {
	Experiment Experiment
	Cells      []Cell
	Labs       []Lab
	Omitted    []Omission
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
	var none T
	return none, &UnknownError{Kind: kind, Name: name, Known: known}
}

// Network returns the network of that name.
func (p Parts) Network(name string) (network.Network, error) {
	return find("network", name, p.Networks, func(n network.Network) string { return n.Describe().Name })
}

// Workload returns the workload of that name.
func (p Parts) Workload(name string) (workload.Workload, error) {
	return find("workload", name, p.Workloads, func(w workload.Workload) string { return w.Describe().Name })
}

// ParsePlacement reads the name of a placement.
func ParsePlacement(s string) (Placement, error) {
	return find("placement", s, Placements(), func(p Placement) string { return string(p) })
}

// Affinities lists the ways to place sources and sinks on CPUs (design, "affinity").
func Affinities() []string { return []string{"split", "same", "free"} }

// minimumMTU is what IPv6 asks of every link (RFC 8200, section 5).
const minimumMTU = 1280

// Resolve expands an experiment into cells and labs. Cells of one group follow each other: baseline, twin, then the networks
// in the order given. CPUs is how many CPUs the workers may use.
func Resolve(e Experiment, parts Parts, cpus int) (*Resolved, error) {
	if err := check(e); err != nil {
		return nil, err
	}
	r := &Resolved{Experiment: e}
	baseline, err := parts.Network(e.Baseline)
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	networks := []network.Network{baseline}
	for _, name := range e.Networks {
		n, err := parts.Network(name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(networks, func(m network.Network) bool { return m.Describe().Name == n.Describe().Name }) {
			networks = append(networks, n)
		}
	}
	for _, load := range e.Workloads {
		name, given, err := part.Parse("workload", load.Workload)
		if err != nil {
			return nil, err
		}
		w, err := parts.Workload(name)
		if err != nil {
			return nil, err
		}
		params, err := w.Describe().Resolve(given)
		if err != nil {
			return nil, err
		}
		for _, placement := range load.Placements {
			for _, pairs := range e.Pairs {
				r.group(networks, w, params, placement, pairs, cpus)
			}
		}
	}
	if len(r.Cells) == 0 {
		reasons := make([]string, len(r.Omitted))
		for i, o := range r.Omitted {
			reasons[i] = o.What + ": " + o.Reason
		}
		return nil, fmt.Errorf("nothing is left to measure (%s)", strings.Join(reasons, "; "))
	}
	return r, nil
}

func check(e Experiment) error {
	if _, err := find("affinity", e.Affinity, Affinities(), func(a string) string { return a }); err != nil {
		return err
	}
	switch {
	case len(e.Workloads) == 0:
		return errors.New("no workload is asked for")
	case e.Hosts < 2:
		return fmt.Errorf("hosts: %d (want at least 2 for cross-host)", e.Hosts)
	case e.Hosts > 16:
		return fmt.Errorf("hosts: %d (want at most 16)", e.Hosts)
	case e.Design.Time <= 0:
		return fmt.Errorf("time: %v (want more than 0)", e.Design.Time)
	case e.Design.Precision <= 0 || e.Design.Precision >= 1:
		return fmt.Errorf("precision: %v (want a share between 0 and 1, such as 0.02)", e.Design.Precision)
	case e.Design.Generations < 5:
		return fmt.Errorf("generations: %d (want at least 5: an interval over fewer says little)", e.Design.Generations)
	case e.Design.Trial < 0 || e.Design.Trial > time.Minute:
		return fmt.Errorf("trial: %v (want 0 for the workload's own length, or up to 1m)", e.Design.Trial)
	case e.Tune.MTU < minimumMTU || e.Tune.MTU > 65535:
		return fmt.Errorf("mtu: %d (want %d to 65535)", e.Tune.MTU, minimumMTU)
	}
	for _, n := range e.Pairs {
		if n < 1 || n > 500 {
			return fmt.Errorf("pairs: %d (want 1 to 500: a bridge has 1023 ports)", n)
		}
	}
	return nil
}

// Threads that share a CPU are off it for whole ticks at a time: a trial has to see many turns of each (design, "Trial length").
const (
	tick          = 4 * time.Millisecond // HZ=250
	turnsPerTrial = 10
)

// threadsPerCPU is how many threads of one side share a CPU.
func threadsPerCPU(affinity string, pairs, cpus int) int {
	threads, on := pairs, max(1, cpus/2)
	if affinity != "split" || cpus == 1 {
		threads, on = 2*pairs, cpus
	}
	return (threads + on - 1) / on
}

// group adds the cells that share a baseline.
func (r *Resolved) group(networks []network.Network, w workload.Workload, params part.Params, placement Placement, pairs, cpus int) {
	d := w.Describe()
	load := d.ID(params)
	e := r.Experiment
	where := fmt.Sprintf("%s/%d/%s", placement, pairs, load)
	// Both ends of a pair spin: with fewer CPUs one would hold two of them, and one of those would wait a tick for the other.
	if d.Spins(params) && 2*pairs > cpus {
		r.Omitted = append(r.Omitted, Omission{where, fmt.Sprintf("%d pairs spin on %d CPUs, and a CPU cannot hold two that do", pairs, cpus)})
		return
	}
	group := fmt.Sprintf("%s|%s|%d|ipv4|%s", load, placement, pairs, e.Affinity)
	if slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Group == group }) {
		r.Omitted = append(r.Omitted, Omission{where, "it is asked for twice"})
		return
	}
	trial := e.Design.Trial
	if trial == 0 {
		trial = max(d.Trial(params), turnsPerTrial*tick*time.Duration(threadsPerCPU(e.Affinity, pairs, cpus)))
	}
	add := func(n network.Network, twin bool) string {
		name := n.Describe().Name
		lab := fmt.Sprintf("%s/%s/%d", name, placement, pairs)
		cell := Cell{
			Cell: measure.Cell{
				ID: name + "/" + where, Twin: twin, Group: group,
				Network: name, Filter: "none", Tunnel: "none", Encryption: "none", Runtime: "netns",
				Placement: string(placement), Pairs: pairs, Family: "ipv4", Affinity: e.Affinity,
				Workload: d.Name, Params: params, Primary: d.Primary,
				Implementation: map[string]string{"network": n.Describe().Implementation},
			},
			Workload: w, Params: params, Trial: trial,
		}
		if twin {
			lab += "#2"
			cell.Baseline = cell.ID
			cell.ID += "#2"
			for _, p := range e.Plants {
				if p.Group == group || p.Group == "" {
					cell.Plant = p.Delay
				}
			}
		}
		cell.Lab = r.lab(lab, n, placement, pairs)
		r.Cells = append(r.Cells, cell)
		return cell.ID
	}
	base := add(networks[0], false)
	add(networks[0], true)
	for _, n := range networks[1:] {
		add(n, false)
		r.Cells[len(r.Cells)-1].Baseline = base
	}
}

// lab returns the index of the lab of that id, which it adds where it is new.
func (r *Resolved) lab(id string, n network.Network, placement Placement, pairs int) int {
	if i := slices.IndexFunc(r.Labs, func(l Lab) bool { return l.ID == id }); i >= 0 {
		return i
	}
	hosts := 1
	if placement == CrossHost {
		hosts = r.Experiment.Hosts
	}
	r.Labs = append(r.Labs, Lab{ID: id, Network: n, Placement: placement, Pairs: pairs, Hosts: hosts})
	return len(r.Labs) - 1
}

// SourceHost and SinkHost return the hosts, from 1, on which a pair's containers are.
func (l Lab) SourceHost(pair int) int { return pair%l.Hosts + 1 }

// SinkHost is SourceHost's successor, modulo the number of hosts.
func (l Lab) SinkHost(pair int) int { return (pair+1)%l.Hosts + 1 }
