package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/workload"
)

// Cell is a cell to measure: the record's view of it and what control needs to run it.
type Cell struct {
	measure.Cell
	Lab      int // index into Resolved.Labs
	Workload workload.Workload
	Driver   driver.Driver // nil: nettoll's own engine
	Params   part.Params   // of the workload
	Trial    time.Duration
	Warm     time.Duration // of a trial, before its window opens
	Plant    time.Duration
	Visit    int // index into Resolved.Visits
	First    int // the first of its pairs in its lab; the others follow
}

// Visit is what has one turn in a block: a cell, or all members of a mix, whose pairs talk at the same time.
type Visit struct {
	ID    string // of the cell, or of the mix: "bridge/same-host/4/mix(udp-rr(…)*3,tcp-stream(…)*1)"
	Cells []int  // indices into Resolved.Cells: of the same lab, family, probe, trial and warm-up
}

// Lab is what has to be built: one stack × placement × pairs × affinity, or the twin's.
type Lab struct {
	ID        string // "bridge/same-host/1"; of a twin "host/same-host/1#2"
	Network   network.Network
	Params    part.Params   // of the network
	Filter    filter.Filter // nil: none
	Filtering part.Params   // of the filter
	Runtime   runtime.Runtime
	Placement Placement
	Pairs     int
	Affinity  string
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
	Visits     []Visit
	Omitted    []Omission
	Notes      []string // what the reader should know of how it was resolved
}

// Limits of an experiment.
const (
	// minMTU is what IPv6 asks of every link (RFC 8200, section 5), maxMTU the largest of a veth (ETH_MAX_MTU, include/uapi/linux/if_ether.h).
	minMTU, maxMTU = 1280, 65535
	// minGenerations is how many an interval takes that says something (docs/method.md).
	minGenerations, maxGenerations = 5, 1000
	// maxPairs keeps the containers of a host below the 1023 ports of a bridge (BR_MAX_PORTS, net/bridge/br_private.h).
	maxPairs = 500
	minHosts = 2
	maxHosts = 16
	maxTrial = time.Minute
	maxTime  = 7 * 24 * time.Hour
	// maxCells is what a block of trials can hold and a person can read.
	maxCells = 2000
)

// check says what is wrong with the numbers of an experiment that was not read from a file, where each is checked in its place.
func check(e Experiment) error {
	for _, a := range e.Factors.Affinities {
		if _, err := find("affinity", a, Affinities(), func(a string) string { return a }); err != nil {
			return err
		}
	}
	for _, f := range e.Factors.Families {
		if _, err := find("family", f, Families(), func(f string) string { return f }); err != nil {
			return err
		}
	}
	switch {
	case len(e.Workloads) == 0:
		return errors.New("no workload is asked for")
	case len(e.Factors.Placements) == 0 || len(e.Factors.Pairs) == 0 || len(e.Factors.Families) == 0 || len(e.Factors.Affinities) == 0:
		return errors.New("placements, pairs, families and affinities need a value each")
	case e.Design.Time <= 0 || e.Design.Time > maxTime:
		return fmt.Errorf("time: %v (want more than 0, at most %v)", e.Design.Time, maxTime)
	case e.Design.Precision <= 0 || e.Design.Precision >= 1:
		return fmt.Errorf("precision: %v (want a share between 0 and 1, such as 0.02)", e.Design.Precision)
	case e.Design.Generations < minGenerations || e.Design.Generations > maxGenerations:
		return fmt.Errorf("generations: %d (want %d to %d: an interval over fewer says little)", e.Design.Generations, minGenerations, maxGenerations)
	case e.Design.Trial < 0 || e.Design.Trial > maxTrial:
		return fmt.Errorf("trial: %v (want 0 for the workload's own length, or up to 1m)", e.Design.Trial)
	case e.Design.Probe != "" && e.Design.Probe != Softirq:
		return &UnknownError{Kind: "probe", Name: e.Design.Probe, Known: Probes()}
	case e.Tune.MTU < minMTU || e.Tune.MTU > maxMTU:
		return fmt.Errorf("mtu: %d (want %d to %d)", e.Tune.MTU, minMTU, maxMTU)
	}
	for _, n := range append(slices.Clone(e.Factors.Hosts), e.Hosts) {
		if n < minHosts || n > maxHosts {
			return fmt.Errorf("hosts: %d (want %d to %d)", n, minHosts, maxHosts)
		}
	}
	for _, n := range e.Factors.Pairs {
		if n < 1 || n > maxPairs {
			return fmt.Errorf("pairs: %d (want 1 to %d: a bridge has 1023 ports)", n, maxPairs)
		}
	}
	return nil
}

// stack is a stack with its parts found.
type stack struct {
	Stack
	id        string
	network   network.Network
	params    part.Params
	filter    filter.Filter // nil: none
	filtering part.Params
	runtime   runtime.Runtime
}

func (p Parts) resolve(s Stack) (stack, error) {
	found := stack{Stack: s}
	var err error
	if found.id, err = p.stackID(s); err != nil {
		return found, err
	}
	if found.network, err = p.Network(s.Network.Name); err != nil {
		return found, err
	}
	d := found.network.Describe()
	if found.params, err = d.Params.Resolve("network "+d.Name, s.Network.Params); err != nil {
		return found, err
	}
	if found.filter, err = p.Filter(s.Filter.Name); err != nil {
		return found, err
	}
	if found.filter != nil {
		d := found.filter.Describe()
		if found.filtering, err = d.Params.Resolve("filter "+d.Name, s.Filter.Params); err != nil {
			return found, err
		}
	}
	found.runtime, err = p.Runtime(s.Runtime.Name)
	return found, err
}

// same says whether two stacks are made of the same parts.
func (s stack) same(o stack) bool {
	d := s.network.Describe()
	return d.Name == o.network.Describe().Name && d.Params.ID("", s.params) == d.Params.ID("", o.params) &&
		s.runtime.Describe().Name == o.runtime.Describe().Name &&
		s.filterID() == o.filterID() && s.Tunnel.name() == o.Tunnel.name() && s.Encryption.name() == o.Encryption.name()
}

// filterID names the filter with what differs from its defaults.
func (s stack) filterID() string {
	if s.filter == nil {
		return none
	}
	d := s.filter.Describe()
	return d.Params.Short(d.Name, s.filtering)
}

// guarded is the network as one whose packets can be filtered, nil where they cannot.
func (s stack) guarded() network.Guarded {
	g, _ := s.network.(network.Guarded)
	return g
}

// unfiltered returns why the filter of the stack cannot be enforced in labs of so many hosts, "" where it can or there is none.
func (s stack) unfiltered(hosts int) string {
	if s.filter == nil {
		return ""
	}
	n := s.network.Describe().Name
	w := filter.Where{Network: n, Hosts: hosts}
	if g := s.guarded(); g != nil {
		w.Point, _ = g.Guarded(s.params)
	}
	if w.Point == "" {
		return fmt.Sprintf("under network %s there is no place where a filter could stand between containers", s.network.Describe().Params.Short(n, s.params))
	}
	if t, ok := s.network.(network.Translator); ok {
		w.Translated = t.Translates(hosts, s.params)
	}
	return s.filter.Refuse(w, s.filtering)
}

// group is what cells share that are compared with each other; the members of a mix have such cells each.
type group struct {
	members   []member // one, or those of a mix
	placement Placement
	hosts     int // of a lab
	pairs     int // of a lab
	family    string
	affinity  string
	usual     int // hosts of a cross-host lab where nothing else is said
}

// Resolve expands an experiment into cells and labs. Cells of one group follow each other: baseline, twin, then the stacks in
// the order given. CPUs is how many CPUs the workers may use.
func Resolve(e Experiment, parts Parts, cpus int) (*Resolved, error) {
	if err := check(e); err != nil {
		return nil, err
	}
	r := &Resolved{Experiment: e}
	given, err := e.stacks(parts)
	if err != nil {
		return nil, err
	}
	stacks := make([]stack, len(given))
	for i, s := range given {
		if stacks[i], err = parts.resolve(s); err != nil {
			return nil, err
		}
		if i > 0 && stacks[i].same(stacks[0]) {
			r.Notes = append(r.Notes, fmt.Sprintf("%s is made of the same parts as the baseline: what they differ by is chance", stacks[i].id))
		}
	}
	called := map[string]part.Params{}
	for _, load := range e.Workloads {
		g := group{usual: e.Hosts}
		if g.members, err = load.resolve(parts); err != nil {
			return nil, err
		}
		for i := range g.members {
			m := &g.members[i]
			m.told = e.told(m.workload.Describe())
			if other, known := called[m.id]; known && !part.Equal(other, m.params) {
				return nil, fmt.Errorf("two workloads are called %s and differ in %s: give each a name of its own", m.id, strings.Join(m.differs(other), ", "))
			}
			called[m.id] = m.params
		}
		for _, g.placement = range e.Factors.Placements {
			if load.Placements != nil && !slices.Contains(load.Placements, g.placement) {
				continue
			}
			for _, g.hosts = range e.hosts(g.placement) {
				for _, g.pairs = range e.Factors.Pairs {
					if load.Pairs != nil && !slices.Contains(load.Pairs, g.pairs) {
						continue
					}
					for _, g.family = range e.Factors.Families {
						for _, g.affinity = range e.Factors.Affinities {
							r.add(stacks, g, cpus)
						}
					}
				}
			}
		}
	}
	switch {
	case len(r.Cells) == 0 && len(r.Omitted) > 0:
		return nil, fmt.Errorf("nothing is left to measure (%s)", r.reasons())
	case len(r.Cells) == 0:
		return nil, errors.New("nothing is left to measure: no workload runs in a placement, or with a number of pairs, of the experiment")
	case len(r.Cells) > maxCells:
		return nil, fmt.Errorf("%d cells (at most %d can be measured at once: cross fewer factors)", len(r.Cells), maxCells)
	}
	return r, nil
}

// told names the parameters of a workload that records and reports hold: all but the quiet ones that have their default wherever the experiment
// has the workload. So a run can be compared with one of a nettoll that did not know them.
func (e Experiment) told(d workload.Description) []string {
	var names []string
	for _, p := range d.Params {
		if !p.Quiet || slices.ContainsFunc(e.choices(), func(c Choice) bool {
			params, err := d.Resolve(c.Params)
			return c.Name == d.Name && err == nil && params[p.Name] != p.Default
		}) {
			names = append(names, p.Name)
		}
	}
	return names
}

// differs names the parameters that a workload has otherwise than with others.
func (m member) differs(other part.Params) []string {
	return slices.DeleteFunc(m.workload.Describe().Params.Names(), func(name string) bool { return m.params[name] == other[name] })
}

// withDriver adds whose program drives a workload to its id.
func withDriver(id, driver string) string {
	if inside, ok := strings.CutSuffix(id, ")"); ok {
		return inside + ",driver=" + driver + ")"
	}
	return id + "(driver=" + driver + ")"
}

// reasons joins what was left out.
func (r *Resolved) reasons() string {
	list := make([]string, len(r.Omitted))
	for i, o := range r.Omitted {
		list[i] = o.What + ": " + o.Reason
	}
	return strings.Join(list, "; ")
}

// omit leaves something out, once.
func (r *Resolved) omit(what, format string, args ...any) {
	o := Omission{what, fmt.Sprintf(format, args...)}
	if !slices.Contains(r.Omitted, o) {
		r.Omitted = append(r.Omitted, o)
	}
}

// Threads that share a CPU are off it for whole ticks at a time: a trial has to see many turns of each (design, "Trial length").
const (
	tick          = 4 * time.Millisecond // HZ=250
	turnsPerTrial = 10
)

// threadsPerCPU is how many threads share the fullest CPU.
func threadsPerCPU(affinity string, pairs, cpus int) int {
	half := max(1, (cpus+1)/2)
	threads, on := pairs, max(1, cpus/2)
	switch {
	case affinity == "free":
		threads, on = 2*pairs, cpus
	case affinity == "same" || cpus == 1:
		threads, on = 2*pairs, half
	}
	return (threads + on - 1) / on
}

// where is what tells the cells of a group from others of the same stack: "same-host/1/udp-rr(payload=64,mode=wait)". What is as by default is
// left out.
func (g group) where() string {
	w := fmt.Sprintf("%s/%d", g.placement, g.pairs)
	if g.placement == CrossHost && g.hosts != g.usual {
		w += fmt.Sprintf("/%d-hosts", g.hosts)
	}
	if g.family != Families()[0] {
		w += "/" + g.family
	}
	if g.affinity != Affinities()[0] {
		w += "/" + g.affinity
	}
	return w + "/" + g.load()
}

// add adds the cells of a group, and of a mix those of all of its members.
func (r *Resolved) add(stacks []stack, g group, cpus int) {
	if reason := g.refused(cpus); reason != "" {
		r.omit(g.where(), "%s", reason)
		return
	}
	where := fmt.Sprintf("|%s|%d|%s|%s", g.placement, g.pairs, g.family, g.affinity)
	if g.placement == CrossHost && g.hosts != g.usual {
		where += fmt.Sprintf("|%d", g.hosts)
	}
	id := func(m member) string { return g.load() + g.of(m) + where }
	if slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Group == id(g.members[0]) }) {
		r.omit(g.where(), "it is asked for twice")
		return
	}
	var here []stack
	for _, s := range stacks {
		if !s.at(g.placement) {
			continue
		}
		if what, reason := s.excluded(g); reason != "" {
			r.omit(what, "%s", reason)
			continue
		}
		here = append(here, s)
	}
	if len(here) == 0 || here[0].id != stacks[0].id {
		r.omit(g.where(), "the baseline %s is not measured there, and nothing can be compared", stacks[0].id)
		return
	}
	first, visit := 0, len(r.Visits)
	for i, pairs := range g.pairsOf() {
		m := g.members[i]
		base := len(r.Cells)
		r.cell(here[0], g, m, id(m), cpus)
		r.twin(r.cell(here[0], g, m, id(m), cpus))
		for _, s := range here[1:] {
			r.Cells[r.cell(s, g, m, id(m), cpus)].Baseline = r.Cells[base].ID
		}
		for j := base; j < len(r.Cells); j++ {
			c := &r.Cells[j]
			c.Lab = r.lab(here[max(0, j-base-1)], g, c.Twin)
			c.Cell.Lab = r.Labs[c.Lab].ID
			c.Pairs, c.First = pairs, first
		}
		if r.Experiment.Design.Probe != "" && !g.mixed() {
			r.probed(base)
		}
		for j := base; j < len(r.Cells); j++ {
			c := &r.Cells[j]
			if c.Visit = visit + j - base; c.Visit == len(r.Visits) {
				r.Visits = append(r.Visits, Visit{ID: strings.Replace(c.ID, g.load()+g.of(m), g.load(), 1)})
			}
			r.Visits[c.Visit].Cells = append(r.Visits[c.Visit].Cells, j)
		}
		first += pairs
	}
	if g.mixed() {
		r.doubtMix(g)
	}
}

// doubtMix says what cannot be known of a mix.
func (r *Resolved) doubtMix(g group) {
	const note = "in a mix soft interrupts are charged to whoever they interrupt: the CPU figures of a member hold some of the others', and the run time of ksoftirqd is in none"
	if !slices.Contains(r.Notes, note) {
		r.Notes = append(r.Notes, note)
	}
	if probe := r.Experiment.Design.Probe; probe != "" {
		r.omit(g.where()+"+"+probe, "the probe counts for all members of a mix together, and nobody could say for which")
	}
}

// probed adds the cells of the last group, which begins at base, once more: in the same labs, with the probe. They are a group of their own, so that
// each is compared with the baseline that has the probe on as well. A twin of that would cost trials and say nothing new: the floor is one of
// the machine, and no verdict of the group's is shown.
func (r *Resolved) probed(base int) {
	mark := "+" + r.Experiment.Design.Probe
	for _, c := range r.Cells[base:] {
		if c.Twin {
			continue
		}
		c.Unprobed, c.Probe = c.ID, r.Experiment.Design.Probe
		c.ID += mark
		c.Group += "|" + mark
		if c.Baseline != "" {
			c.Baseline += mark
		}
		r.Cells = append(r.Cells, c)
	}
}

// cell adds a cell of a member without its lab and pairs, and returns its index.
func (r *Resolved) cell(s stack, g group, m member, id string, cpus int) int {
	d, n := m.workload.Describe(), s.network.Describe()
	params := part.Params{}
	for _, name := range m.told {
		params[name] = m.params[name]
	}
	implementation := map[string]string{"network": n.Implementation, "runtime": s.runtime.Describe().Implementation}
	enforced := ""
	if s.filter != nil {
		implementation["filter"] = s.filter.Describe().Implementation
		at, _ := s.guarded().Guarded(s.params)
		enforced = at.String()
		if x, ok := s.filter.(filter.Sited); ok {
			enforced = x.Enforced(at, s.filtering)
		}
	}
	if m.driver != nil {
		params["driver"] = m.driver.Describe().Name
	}
	c := Cell{
		Cell: measure.Cell{
			ID: s.id + "/" + g.where() + g.of(m), Group: id, Stack: s.Name,
			Network: n.Params.Short(n.Name, s.params), Filter: s.filterID(), Tunnel: s.Tunnel.name(), Encryption: s.Encryption.name(),
			Runtime: s.runtime.Describe().Name, Placement: string(g.placement), Hosts: g.hosts, Family: g.family, Affinity: g.affinity,
			Workload: d.Name, Params: params, Mix: g.mix(), Primary: d.Primary(m.params), Implementation: implementation, Enforced: enforced,
			Defaults: s.defaults(),
		},
		Workload: m.workload, Driver: m.driver, Params: m.params,
	}
	c.Trial, c.Warm = g.trial(r.Experiment.Design.Trial, cpus)
	if g.mixed() {
		c.LabPairs = g.pairs
	}
	r.Cells = append(r.Cells, c)
	return len(r.Cells) - 1
}

// defaults returns the parameters of a stack's network and filter that are numbers and have their default, which ids do not say: they are points of curves. What
// both have is left out.
func (s stack) defaults() map[string]string {
	found, seen := map[string]string{}, map[string]bool{}
	of := func(list part.List, params part.Params) {
		for _, p := range list {
			_, err := strconv.ParseFloat(p.Default, 64)
			if delete(found, p.Name); err == nil && params[p.Name] == p.Default && !seen[p.Name] {
				found[p.Name] = p.Default
			}
			seen[p.Name] = true
		}
	}
	of(s.network.Describe().Params, s.params)
	if s.filter != nil {
		of(s.filter.Describe().Params, s.filtering)
	}
	return found
}

// twin makes a cell the twin of the baseline's.
func (r *Resolved) twin(i int) {
	c := &r.Cells[i]
	c.Baseline, c.Twin = c.ID, true
	c.ID += "#2"
	for _, p := range r.Experiment.Plants {
		if p.Group == c.Group || p.Group == "" {
			c.Plant = p.Delay
		}
	}
}

// lab returns the index of the lab that a cell is measured in, which it adds where it is new.
func (r *Resolved) lab(s stack, g group, twin bool) int {
	id := fmt.Sprintf("%s/%s/%d", s.id, g.placement, g.pairs)
	if g.placement == CrossHost && g.hosts != g.usual {
		id += fmt.Sprintf("/%d-hosts", g.hosts)
	}
	if g.affinity != Affinities()[0] {
		id += "/" + g.affinity
	}
	if twin {
		id += "#2"
	}
	if i := slices.IndexFunc(r.Labs, func(l Lab) bool { return l.ID == id }); i >= 0 {
		return i
	}
	r.Labs = append(r.Labs, Lab{
		ID: id, Network: s.network, Params: s.params, Filter: s.filter, Filtering: s.filtering, Runtime: s.runtime,
		Placement: g.placement, Pairs: g.pairs, Affinity: g.affinity, Hosts: g.hosts,
	})
	return len(r.Labs) - 1
}

// Alone says whether each thread of a cell has a CPU of its own.
func (l Lab) Alone(cpus int) bool { return threadsPerCPU(l.Affinity, l.Pairs, cpus) == 1 }

// SourceHost and SinkHost return the hosts, from 1, on which a pair's containers are.
func (l Lab) SourceHost(pair int) int { return pair%l.Hosts + 1 }

// SinkHost is SourceHost's successor, modulo the number of hosts.
func (l Lab) SinkHost(pair int) int { return (pair+1)%l.Hosts + 1 }
