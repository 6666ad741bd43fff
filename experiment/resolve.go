package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
)

// Cell is a cell to measure: its description in the records, and what control needs to run it.
type Cell struct {
	measure.Cell
	Lab      int // index into Resolved.Labs
	Workload workload.Workload
	Driver   driver.Driver // nil: nettoll's own engine
	Params   part.Params   // of the workload
	Trial    time.Duration
	Warm     time.Duration // part of a trial before its window opens
	Plant    time.Duration
	Visit    int    // index into Resolved.Visits
	Load     string // id of its workload, or of the mix that it is a member of
	Member   string // id of its own workload
	First    int    // the first of its pairs in its lab; its other pairs follow
	Asked    int    // index into Experiment.Workloads
}

// Has reports whether a pair of the lab belongs to the cell.
func (c Cell) Has(pair int) bool { return c.First <= pair && pair < c.First+c.Pairs }

// Visit is what has one turn in a block: a cell, or all members of a mix, whose pairs talk at the same time.
type Visit struct {
	ID    string // of the cell, or of the mix: "bridge/same-host/4/mix(udp-rr(…)*3,tcp-stream(…)*1)"
	Cells []int  // indices into Resolved.Cells: of the same lab, family, probe, trial and warm-up
}

// Lab is a lab to build: one stack × placement × pairs × affinity, or the twin's.
type Lab struct {
	ID        string      // "bridge/same-host/1"; of a twin "host/same-host/1#2"
	Named     string      // the name of its stack in ids: "bridge"
	Stack     stack.Stack // complete
	Placement Placement
	Pairs     int
	Affinity  string
	Hosts     int
	Settings  // of its stack
}

// Omission is a combination that was left out, with the reason.
type Omission struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
	Stack  string `json:"-"` // as the experiment names it; "" if the stack is not the reason
}

// Resolved is an experiment ready to run.
type Resolved struct {
	Experiment Experiment
	Cells      []Cell
	Labs       []Lab
	Visits     []Visit
	Omitted    []Omission
	Metrics    measure.Vocabulary // of all known parts
	Probe      probe.Probe        // nil: cells are measured without one
	Notes      []string           // what the reader should know about how it was resolved
}

// Limits of an experiment.
const (
	// minMTU is the smallest MTU that IPv6 allows on a link (RFC 8200, section 5), maxMTU the largest of a veth
	// (ETH_MAX_MTU, include/uapi/linux/if_ether.h).
	minMTU, maxMTU = 1280, 65535
	// minRate of an underlay is in bit/s: one small packet in a few milliseconds. maxDelay keeps a round trip within a
	// trial.
	minRate  = 64e3
	maxDelay = 10 * time.Second
	// minGenerations is the smallest number for a useful interval (docs/method.md).
	minGenerations, maxGenerations = measure.LeastGenerations, 1000
	// maxPairs is a limit of nettoll, not of networks, which refuse themselves what they have no room for. It is the
	// number for which nettoll doctor asks whether the machine is large enough (internal/linux/machine).
	maxPairs = 500
	minHosts = 2
	maxHosts = 16
	maxTrial = time.Minute
	maxTime  = 7 * 24 * time.Hour
	// maxCells is the largest number of cells that a block can hold and a person can read.
	maxCells = 2000
	// maxCombinations is the largest number of combinations before meaningless ones are left out: crossing them takes
	// less than a second.
	maxCombinations = 10 * maxCells
)

// check returns an error if a number of an experiment is not valid. It is for experiments made in code; the reader of
// files checks each number in its place.
func check(e Experiment) error {
	for _, a := range e.Factors.Affinities {
		if _, err := find("affinity", a, Affinities(), func(a string) string { return a }); err != nil {
			return err
		}
	}
	for _, i := range e.Factors.Idles {
		if _, err := find("idle", i, Idles(), func(i string) string { return i }); err != nil {
			return err
		}
	}
	for _, f := range e.Factors.Families {
		if _, err := find("family", f, Families(), func(f string) string { return f }); err != nil {
			return err
		}
	}
	if err := e.Underlay.Valid(); err != nil {
		return err
	}
	if _, err := e.onCluster(); err != nil {
		return err
	}
	switch {
	case len(e.Workloads) == 0:
		return errors.New("no workload is given")
	case len(e.Factors.Placements) == 0 || len(e.Factors.Pairs) == 0 || len(e.Factors.Families) == 0 ||
		len(e.Factors.Affinities) == 0:
		return errors.New("placements, pairs, families and affinities need at least one value each")
	case e.Design.Time <= 0 || e.Design.Time > maxTime:
		return fmt.Errorf("time: %v (valid: more than 0, at most %v)", e.Design.Time, maxTime)
	case e.Design.Precision <= 0 || e.Design.Precision >= 1:
		return fmt.Errorf("precision: %v (valid: a share between 0 and 1, such as 0.02)", e.Design.Precision)
	case e.Design.Margin < 0 || e.Design.Margin >= 1:
		return fmt.Errorf("margin: %v (valid: a share between 0 and 1, such as 0.05)", e.Design.Margin)
	case e.Design.Spoiled < 0 || e.Design.Spoiled >= 1:
		return fmt.Errorf("spoiled: %v (valid: 0, or a share between 0 and 1, such as 0.05)", e.Design.Spoiled)
	case e.Proof.Budget < 0 || e.Proof.Budget >= 1:
		return fmt.Errorf("proof budget: %v (valid: 0, or a share between 0 and 1, such as 0.05)", e.Proof.Budget)
	case e.Design.Generations < minGenerations || e.Design.Generations > maxGenerations:
		return fmt.Errorf("generations: %d (valid: %d to %d)", e.Design.Generations,
			minGenerations, maxGenerations)
	case e.Design.Trial < 0 || e.Design.Trial > maxTrial:
		return fmt.Errorf("trial: %v (valid: 0 for the workload's own length, or up to 1m)", e.Design.Trial)
	}
	for _, n := range append(slices.Clone(e.Factors.MTUs), e.Tune.MTU) {
		if n < minMTU || n > maxMTU {
			return fmt.Errorf("mtu: %d (valid: %d to %d)", n, minMTU, maxMTU)
		}
	}
	for _, n := range append(slices.Clone(e.Factors.Hosts), e.Hosts) {
		if n < minHosts || n > maxHosts {
			return fmt.Errorf("hosts: %d (valid: %d to %d)", n, minHosts, maxHosts)
		}
	}
	for _, n := range e.Factors.Pairs {
		if n < 1 || n > maxPairs {
			return fmt.Errorf("pairs: %d (valid: 1 to %d)", n, maxPairs)
		}
	}
	return nil
}

// group holds what cells that are compared with each other have in common; each member of a mix has such cells.
type group struct {
	members   []member // one, or the members of a mix
	placement Placement
	hosts     int // of a lab
	pairs     int // of a lab
	family    string
	affinity  string
	idle      string
	programs  int  // on a CPU, in addition to its threads: programs that carry packets of some stack
	usual     int  // default number of hosts of a cross-host lab
	asked     int  // index into Experiment.Workloads
	alone     bool // each member of the mix is also measured alone
}

// An expansion is a Resolved under construction, with indices by name: each step takes constant time, however many
// cells there are.
type expansion struct {
	*Resolved
	stacks         []calledStack
	parts          Parts
	recordedStacks map[string]recordedStack // by name and hosts
	cpus           int
	groups         map[string]bool // of cells
	labs           map[string]int  // indices into Labs, by id
	omitted        map[Omission]bool
	fitted         map[string]bool   // by stack and hosts
	unfitted       map[string]string // those of them that are left out, with the reason
	unfit          error             // the layers between hosts leave no room for packets
}

// Resolve expands an experiment into cells and labs. The cells of a group are consecutive: baseline, twin, then the
// stacks in the order given. cpus is the number of CPUs that the workers may use. An experiment with too many
// combinations is refused before it is expanded.
func Resolve(e Experiment, parts Parts, cpus int) (*Resolved, error) {
	if err := check(e); err != nil {
		return nil, err
	}
	parts = parts.For(e.Clusters)
	r := &expansion{
		Resolved: &Resolved{Experiment: e, Metrics: parts.Metrics}, parts: parts, cpus: cpus,
		recordedStacks: map[string]recordedStack{},
		groups:         map[string]bool{}, labs: map[string]int{}, omitted: map[Omission]bool{}, fitted: map[string]bool{},
		unfitted: map[string]string{},
	}
	var err error
	if r.Probe, err = parts.probe(e.Design.Probe); err != nil {
		return nil, err
	}
	if err := e.bounded(); err != nil {
		return nil, err
	}
	if r.stacks, err = e.stacks(parts); err != nil {
		return nil, err
	}
	for i, s := range r.stacks {
		if i > 0 && s.Parts.Equal(r.stacks[0].Parts) && s.Settings == r.stacks[0].Settings {
			r.Notes = append(r.Notes,
				fmt.Sprintf("%s consists of the same parts as the baseline: differences between them are chance, and show how "+
					"much of it there is; leave it out to save time", s.id))
		}
	}
	told := e.told(parts)
	called := map[string]part.Params{}
	for asked, load := range e.Workloads {
		g := group{usual: e.Hosts, asked: asked, alone: load.Alone}
		programmed := slices.ContainsFunc(r.stacks, func(s calledStack) bool { return s.Parts.Programmed() })
		if g.members, err = load.resolve(parts); err != nil {
			return nil, err
		}
		for i := range g.members {
			m := &g.members[i]
			d := m.workload.Describe()
			m.told = slices.DeleteFunc(d.Params.Names(), func(name string) bool { return !told[d.Name][name] })
			if other, known := called[m.id]; known && !part.Equal(other, m.params) {
				return nil, fmt.Errorf("two workloads named %s differ in %s: give each its own name", m.id,
					strings.Join(m.differs(other), ", "))
			}
			called[m.id] = m.params
		}
		for _, g.placement = range e.Factors.Placements {
			if load.Placements != nil && !slices.Contains(load.Placements, g.placement) {
				continue
			}
			g.programs = 0
			if programmed || g.placement == CrossHost && e.Underlay.Late() { // a process may delay packets
				g.programs = 1
			}
			for _, g.hosts = range e.hosts(g.placement) {
				for _, g.pairs = range e.Factors.Pairs {
					if load.Pairs != nil && !slices.Contains(load.Pairs, g.pairs) {
						continue
					}
					for _, g.family = range e.Factors.Families {
						for _, g.affinity = range e.Factors.Affinities {
							for _, g.idle = range e.Factors.idles() {
								if r.add(g); r.unfit != nil {
									return nil, r.unfit
								}
								if len(r.Cells) > maxCells {
									return nil, fmt.Errorf("too many cells: more than %d: %s; cross fewer factors", maxCells, e.crossed())
								}
							}
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
		return nil, errors.New("nothing is left to measure: no workload runs in a placement, or with a number of pairs, of " +
			"the experiment")
	}
	if e.Only != nil {
		kept := r.Keep(e.Only)
		if len(kept.Cells) == 0 {
			return nil, errors.New("nothing is left to measure: the experiment has none of the cells that were chosen")
		}
		return kept, nil
	}
	return r.Resolved, nil
}

// told returns, by workload, the names of the parameters in records and reports. It leaves out quiet ones that have
// their default wherever the experiment uses the workload. So a run can be compared with a run of a nettoll that did
// not have these parameters.
func (e Experiment) told(parts Parts) map[string]map[string]bool {
	told := map[string]map[string]bool{}
	for _, c := range e.choices() {
		d, params, err := parts.described(c)
		if told[d.Name] == nil {
			told[d.Name] = map[string]bool{}
		}
		for _, p := range d.Params {
			if !p.Quiet || err == nil && params[p.Name] != p.Default {
				told[d.Name][p.Name] = true
			}
		}
	}
	return told
}

// differs returns the names of the parameters in which a workload differs from another set.
func (m member) differs(other part.Params) []string {
	return slices.DeleteFunc(m.workload.Describe().Params.Names(), func(name string) bool {
		return m.params[name] == other[name]
	})
}

// reasons lists what was left out, with the reasons.
func (r *Resolved) reasons() string {
	list := make([]string, len(r.Omitted))
	for i, o := range r.Omitted {
		list[i] = o.What + ": " + o.Reason
	}
	return strings.Join(list, "; ")
}

// omit records something that is left out, once.
func (r *expansion) omit(what, format string, args ...any) {
	r.leave(Omission{What: what, Reason: fmt.Sprintf(format, args...)})
}

func (r *expansion) leave(o Omission) {
	if !r.omitted[o] {
		r.Omitted, r.omitted[o] = append(r.Omitted, o), true
	}
}

// Threads that share a CPU with others, or with a program that carries packets, are off it for whole ticks at a time. A
// trial has to contain many turns of each (design, "Trial length").
const (
	tick          = 4 * time.Millisecond // HZ=250
	turnsPerTrial = 10
)

// threadsPerCPU returns how many threads share the fullest CPU.
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

// where identifies a group among the cells of one stack: "same-host/1/udp-rr(payload=64,mode=wait)". It leaves out
// defaults.
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
	if g.idle != IdleAuto {
		w += "/" + g.idle
	}
	return w + "/" + g.load()
}

// place identifies a lab of the group among those of one stack: "same-host/1". It leaves out defaults.
func (g group) place() string {
	p := fmt.Sprintf("%s/%d", g.placement, g.pairs)
	if g.placement == CrossHost && g.hosts != g.usual {
		p += fmt.Sprintf("/%d-hosts", g.hosts)
	}
	if g.affinity != Affinities()[0] {
		p += "/" + g.affinity
	}
	return p
}

// add adds the cells of a group; for a mix, the cells of all of its members.
func (r *expansion) add(g group) {
	if reason := g.refused(r.cpus); reason != "" {
		r.omit(g.where(), "%s", reason)
		return
	}
	where := fmt.Sprintf("|%s|%d|%s|%s", g.placement, g.pairs, g.family, g.affinity)
	if g.placement == CrossHost && g.hosts != g.usual {
		where += fmt.Sprintf("|%d", g.hosts)
	}
	if g.idle != IdleAuto {
		where += "|" + g.idle
	}
	id := func(m member) string { return g.load() + g.of(m) + where }
	if r.groups[id(g.members[0])] {
		r.omit(g.where(), "it is given twice")
		return
	}
	var here []calledStack
	unused := "" // the reason why stacks cannot be compared in the group
	for _, s := range r.stacks {
		if !s.at(g.placement) {
			continue
		}
		if what, reason := s.excluded(s.id, g); reason != "" {
			r.leave(Omission{What: what, Reason: reason, Stack: s.id})
			continue
		}
		if reason := network.RefuseUnderlay(s.Parts, g.hosts, r.Experiment.Underlay); reason != "" {
			r.leave(Omission{What: fmt.Sprintf("%s/%s", s.id, g.placement), Reason: reason, Stack: s.id})
			continue
		}
		if reason := r.fit(s, g); reason != "" {
			r.leave(Omission{What: fmt.Sprintf("%s/%s", s.id, g.placement), Reason: reason, Stack: s.id})
			continue
		}
		if s.crossed && s.Congestion != "" && g.unused() != "" {
			unused = g.unused()
			r.leave(Omission{What: s.id + "/" + g.where(), Reason: unused, Stack: s.id})
			continue
		}
		here = append(here, s)
	}
	if base := r.stacks[0].id; len(here) == 0 || here[0].id != base {
		r.omit(g.where(), "the baseline %s is not measured there, so no comparison is possible", base)
		return
	}
	if len(here) == 1 && unused != "" {
		r.omit(g.where(), "no stack is left to compare with the baseline %s", here[0].id)
		return
	}
	first, visit, mixed := 0, len(r.Visits), len(r.Cells)
	for i, pairs := range g.pairsOf() {
		m := g.members[i]
		base := len(r.Cells)
		r.groups[id(m)] = true
		r.cell(here[0], g, m, id(m))
		r.twin(r.cell(here[0], g, m, id(m)))
		for _, s := range here[1:] {
			r.Cells[r.cell(s, g, m, id(m))].Baseline = r.Cells[base].ID
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
		if g.alone {
			r.alone(mixed)
		}
		r.doubtMix(g)
	}
}

// compose returns the planned lab of a stack.
func (r *expansion) compose(s calledStack, g group, mtu int) (network.Lab, error) {
	lab := network.NewLab(g.hosts, mtu)
	lab.Underlay = r.Experiment.Underlay
	return network.Compose(lab, s.Parts)
}

// Between returns the layers between the hosts of a lab, from the underlay up to the containers; none if the lab has
// one host.
func (r *Resolved) Between(l Lab) ([]network.Layer, error) {
	lab := network.NewLab(l.Hosts, cmp.Or(l.MTU, r.Experiment.Tune.MTU))
	lab.Underlay = r.Experiment.Underlay
	lab, err := network.Compose(lab, l.Stack)
	return lab.Between(), err
}

// fit adds a note if the MTU between containers on different hosts is not the requested one, and records an error if a
// stack leaves them too little. It returns why a stack that has its MTU from the factors is left out; "" if it is not.
func (r *expansion) fit(s calledStack, g group) string {
	key := fmt.Sprintf("%s/%d", s.id, g.hosts)
	if r.fitted[key] {
		return r.unfitted[key]
	}
	r.fitted[key] = true
	mtu := cmp.Or(s.MTU, r.Experiment.Tune.MTU)
	lab, err := r.compose(s, g, mtu)
	switch {
	case err != nil && s.crossed && s.MTU != 0:
		r.unfitted[key] = err.Error()
	case err == nil && narrow(s.Parts, lab.MTU) != "":
		r.unfitted[key] = narrow(s.Parts, lab.MTU)
	case err != nil && (r.unfit == nil || needs(err) > needs(r.unfit)):
		r.unfit = fmt.Errorf("%s: %w", s.id, err)
	case err == nil && lab.MTU < mtu:
		if usual, err := r.compose(s, g, r.Experiment.Tune.MTU); s.crossed && err == nil && usual.MTU == lab.MTU &&
			s.MTU != 0 {
			r.unfitted[key] = fmt.Sprintf("its containers have an MTU of %d, as with mtu=%d (%s; hint: raise underlay.mtu)",
				lab.MTU, r.Experiment.Tune.MTU, lab.Layers())
			break
		}
		note := fmt.Sprintf("%s: containers on different hosts have an MTU of %d (%s); raise underlay.mtu to change that",
			s.id, lab.MTU, lab.Layers())
		if !slices.Contains(r.Notes, note) { // of labs with another number of hosts
			r.Notes = append(r.Notes, note)
		}
	}
	return r.unfitted[key]
}

// needs returns the MTU of the underlay that a stack needs, from the error that names it; 0 for any other error.
func needs(err error) int {
	if small, ok := errors.AsType[*network.TooSmallError](err); ok {
		return small.Least
	}
	return 0
}

// narrow returns why the links of a stack cannot have an MTU; "" if they can.
func narrow(s stack.Stack, mtu int) string {
	n, params, ok := stack.PartOf[network.Narrow](s)
	if !ok || mtu <= n.MostMTU(params) {
		return ""
	}
	return fmt.Sprintf("its links cannot have an MTU of %d (at most %d)", mtu, n.MostMTU(params))
}

// doubtMix adds notes about what cannot be known about a mix.
func (r *expansion) doubtMix(g group) {
	const note = "in a mix, softirq time is charged to whichever thread was interrupted: CPU figures of a member " +
		"include some of the others' and exclude ksoftirqd; see its own in a run without the others"
	if !slices.Contains(r.Notes, note) {
		r.Notes = append(r.Notes, note)
	}
	if probe := r.Experiment.Design.Probe; probe != "" {
		r.omit(g.where()+"+"+probe, "the probe counts all members of a mix together and cannot tell them apart")
	}
}

// probed adds the cells of the last group, which begins at base, a second time: in the same labs, with the probe. They
// are a group of their own, so that each is compared with the baseline that also has the probe. It has no twin, which
// would cost trials and add nothing: the floor is a property of the machine, and the group has no verdicts.
func (r *expansion) probed(base int) {
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

// cell adds a cell of a member, without its lab and pairs, and returns its index.
func (r *expansion) cell(s calledStack, g group, m member, id string) int {
	d := m.workload.Describe()
	params := part.Params{}
	for _, name := range m.told {
		params[name] = m.params[name]
	}
	unnamed := slices.DeleteFunc(append([]string{}, d.Params.Unnamed(m.params)...), func(name string) bool {
		return !slices.Contains(m.told, name)
	})
	if m.driver != nil {
		params["driver"] = m.driver.Describe().Name
	}
	made := r.recorded(s, g.hosts)
	c := Cell{
		Cell: measure.Cell{
			ID: s.id + "/" + g.where() + g.of(m), Group: id, Stack: s.id, Label: made.label, Parts: made.parts,
			Placement: string(g.placement), Hosts: g.hosts, Family: g.family, Affinity: g.affinity, Idle: g.idle,
			Workload: d.Name, Params: params, Unnamed: unnamed, Mix: g.mix(), Others: g.others(m), Primary: d.Primary(m.params),
			Implementation: made.implementation, Enforced: made.enforced, Place: g.place(),
		},
		Workload: m.workload, Driver: m.driver, Params: m.params, Load: g.load(), Member: m.id,
		Asked: g.asked,
	}
	c.Trial, c.Warm = g.trial(cmp.Or(r.Experiment.Workloads[g.asked].Trial, r.Experiment.Design.Trial), r.cpus)
	if r.Experiment.Clusters != nil {
		c.Trial, c.Warm = called(c.Trial, c.Warm, g.pairs)
	}
	if g.mixed() {
		c.LabPairs = g.pairs
	}
	r.Cells = append(r.Cells, c)
	return len(r.Cells) - 1
}

// implementations returns the implementation of each part.
func implementations(s stack.Stack) map[string]string {
	who := map[string]string{}
	for _, c := range s {
		if c.Part.Implementation != "" {
			who[c.Kind.Describe().Name] = c.Part.Implementation
		}
	}
	return who
}

// A recordedStack is a stack, in labs of a number of hosts, as records hold it. Its cells share it.
type recordedStack struct {
	label          string
	parts          []measure.Part
	implementation map[string]string
	enforced       string
}

// recorded returns the recorded stack, which it makes once.
func (r *expansion) recorded(s calledStack, hosts int) recordedStack {
	key := fmt.Sprintf("%s/%d", s.id, hosts)
	made, known := r.recordedStacks[key]
	if known {
		return made
	}
	made = recordedStack{
		label: s.id, parts: make([]measure.Part, len(s.Parts)), implementation: implementations(s.Parts),
		enforced: s.Parts.Enforced(),
	}
	var labels []string
	if s.Name == "" {
		labels = r.parts.Kinds.Labels(s.Parts, hosts)
		made.label = strings.Join(labels, "")
	}
	list := made.parts
	for i, c := range s.Parts {
		list[i] = measure.Part{
			Kind: c.Kind.Describe().Name, Name: c.Part.Name, ID: c.ID(), Params: c.Params,
		}
		if labels != nil {
			list[i].Label = strings.TrimSuffix(labels[i], c.ID()[len(c.Part.Name):])
		}
		for _, p := range c.Part.Params {
			if c.Params[p.Name] == p.Default {
				list[i].Default = append(list[i].Default, p.Name)
			}
		}
	}
	for _, p := range r.Experiment.settingParts(s.Settings) {
		if s.Name != "" {
			p.Label = ""
		}
		made.parts, made.label = append(made.parts, p), made.label+p.Label
	}
	r.recordedStacks[key] = made
	return made
}

// twin makes a cell the twin of the baseline's.
func (r *expansion) twin(i int) {
	c := &r.Cells[i]
	c.Baseline, c.Twin = c.ID, true
	c.ID += "#2"
	for _, p := range r.Experiment.Plants {
		if p.Group == c.Group || p.Group == "" {
			c.Plant = p.Delay
		}
	}
}

// lab returns the index of the lab in which a cell is measured. It adds the lab if it is new.
func (r *expansion) lab(s calledStack, g group, twin bool) int {
	id := s.id + "/" + g.place()
	if twin {
		id += "#2"
	}
	if i, known := r.labs[id]; known {
		return i
	}
	r.labs[id] = len(r.Labs)
	r.Labs = append(r.Labs, Lab{
		ID: id, Named: s.id, Stack: s.Parts, Placement: g.placement, Pairs: g.pairs, Affinity: g.affinity, Hosts: g.hosts,
		Settings: s.Settings,
	})
	return len(r.Labs) - 1
}

// Alone reports whether each thread of a cell has a CPU of its own.
func (l Lab) Alone(cpus int) bool { return threadsPerCPU(l.Affinity, l.Pairs, cpus) == 1 }

// SourceHost and SinkHost return the hosts, from 1, on which a pair's containers are.
func (l Lab) SourceHost(pair int) int { return pair%l.Hosts + 1 }

// SinkHost is SourceHost's successor, modulo the number of hosts.
func (l Lab) SinkHost(pair int) int { return (pair+1)%l.Hosts + 1 }
