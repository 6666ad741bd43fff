package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// Read reads an experiment from a file, with the changes from the command line. Values that the file does not have are
// those of [Base]. It returns an experiment or an [*Error], never both. The name is that of the file, for errors.
func Read(name string, text []byte, settings []Setting, parts Parts) (Experiment, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // a byte order mark, which some editors write
	src := &source{name: name, text: text}
	n, err := parse(src)
	if err != nil {
		return Experiment{}, err
	}
	for _, s := range settings {
		if err := n.set(s); err != nil {
			return Experiment{}, err
		}
	}
	clusters := clustersOf(n)
	if parts = parts.For(clusters); len(parts.Kinds) == 0 {
		return Experiment{}, n.key("hosts").wrong("hosts: stacks cannot be on a cluster here (valid: kind %s)", onMachine)
	}
	e := Base(parts)
	e.Clusters = clusters
	if err := grammar(&e, parts).read("", n); err != nil {
		return Experiment{}, err
	}
	e.Source = effective(string(text), n, settings)
	return e, nil
}

// grammar is the shape of an experiment file; reading by it fills e.
func grammar(e *Experiment, parts Parts) shape {
	baseline := "" // given as a single value
	return shape{
		doc: "A nettoll experiment: which stacks to compare, with which workloads, and how precisely.",
		fields: []field{
			{name: "name", shape: shape{
				doc: "Name of the experiment; the run directory is named after it.", example: "bridge-or-macvlan",
				pattern: `^[A-Za-z0-9][A-Za-z0-9._-]*$`, take: func(s string) error { return word(s, &e.Name) },
			}},
			{name: "hosts", shape: hosts(e)},
			{name: "baseline", shape: shape{
				doc: "The stack that all others are compared with. The default is network host, which means no container " +
					"network; of a single network with several MTUs or congestion controls, it is that network with the first.",
				either: []shape{
					{
						doc:     "It as cells name it, or the name of one under stacks.",
						example: "bridge+nftables(rules=10)", take: func(s string) error {
							if baseline = strings.TrimSpace(s); baseline == "" {
								return errors.New("the value is empty (valid: a stack, such as bridge+nftables(rules=10))")
							}
							return nil
						},
					},
					{fields: append(stackFields(&e.Baseline.Parts, parts), settingFields(&e.Baseline.Settings)...)},
				},
			}},
			{name: "factors", shape: factors(&e.Factors, parts)},
			{name: "stacks", shape: namedStacks(e, parts)},
			{name: "workloads", required: true, shape: workloads(e, parts)},
			{name: "design", shape: design(&e.Design, parts)},
			{name: "tune", shape: tune(&e.Tune)},
			{name: "proof", shape: proof(&e.Proof)},
			{name: "underlay", shape: underlay(&e.Underlay)},
		},
		done: func(n *node) error {
			if err := e.settle(n); err != nil {
				return err
			}
			if err := e.base(n, baseline, parts); err != nil {
				return err
			}
			if err := e.spread(parts.Kinds); err != nil {
				return n.wrong("%w", err)
			}
			if key, err := e.onCluster(); err != nil {
				if k := n.key(key...); k != nil {
					return k.wrong("%w", err)
				}
				return n.wrong("%w", err)
			}
			return comparison(e, parts, n)
		},
	}
}

// base chooses the baseline: the one written as a single value or, if there is none, the one that follows from the
// factors.
func (e *Experiment) base(n *node, text string, parts Parts) error {
	if text == "" {
		if n.index("baseline") < 0 {
			e.imply(n, parts)
		}
		return nil
	}
	if i := slices.IndexFunc(e.Stacks, func(s Stack) bool { return s.Name == text }); i >= 0 {
		e.Baseline = e.Stacks[i]
		e.Baseline.Placements = nil
		e.Stacks = slices.Delete(e.Stacks, i, i+1)
		return nil
	}
	s, err := parts.readStack(text)
	if err != nil {
		at := n.values[n.index("baseline")]
		var names []string
		for _, s := range e.Stacks {
			names = append(names, s.Name)
		}
		if names != nil {
			return at.wrong("%w; or one of the stacks %s", err, strings.Join(names, ", "))
		}
		return at.wrong("%w", err)
	}
	e.Baseline = s
	return nil
}

// imply makes the only network of the factors the baseline if other things are compared: filters and similar parts from
// flags, MTUs, or congestion controls. (In a file, filters alone do not change the baseline, so that old files keep
// their meaning.)
func (e *Experiment) imply(n *node, parts Parts) {
	first := parts.Kinds[0].Describe()
	networks := e.Factors.Of(first.Name)
	if len(networks) != 1 || len(e.Stacks) > 0 {
		return
	}
	var compared []string
	for _, choices := range e.Factors.Parts {
		d := choices[0].Kind.Describe()
		if key := n.at("factors", d.Name); d.Name != first.Name && key != nil && key.line == 0 &&
			slices.ContainsFunc(choices, func(c stack.Choice) bool { return !c.Standard() }) {
			compared = append(compared, d.Plural)
		}
	}
	if len(e.Factors.MTUs) > 1 {
		compared = append(compared, "MTUs")
	}
	if len(e.Factors.Congestions) > 1 {
		compared = append(compared, "congestion controls")
	}
	if compared == nil || len(e.Baseline.Parts) > 0 && e.Baseline.Parts[0].Equal(networks[0]) {
		return
	}
	alone, err := parts.Kinds.Complete(stack.Stack{networks[0]})
	if err == nil && alone.Refuse(1) != "" && alone.Refuse(2) != "" {
		return // it means nothing without the other parts
	}
	usual := parts.stackID(e.Baseline)
	e.Baseline.Parts = stack.Stack{networks[0]}
	e.Implied = fmt.Sprintf("%s, because it is the only %s and %s are compared (for another one: --baseline %s)",
		parts.stackID(e.Baseline), first.Name, strings.Join(compared, " and "), usual)
}

// comparison returns an error if there is nothing to compare.
func comparison(e *Experiment, parts Parts, n *node) error {
	at := n.place
	if err := e.bounded(); err != nil {
		return at.wrong("%w", err)
	}
	first := parts.Kinds[0].Describe()
	for _, path := range [][]string{{"baseline"}, {"factors", first.Name}} { // the latter, if both exist
		if k := n.key(path...); k != nil {
			at = k.place
		}
	}
	stacks, err := e.stacks(parts)
	if taken, ok := errors.AsType[*takenError](err); ok {
		return n.taken(taken, first.Name)
	}
	if err != nil {
		return at.wrong("%w", err)
	}
	if len(stacks) < 2 {
		return at.wrong("no stack to compare with the baseline %s: factors and stacks name no other (%s: %s)",
			stacks[0].id, first.Plural, strings.Join(stack.Names(parts.Kinds[0]), ", "))
	}
	return nil
}

// taken places the error at the name that is already used, and names the line of its other use: the baseline, or the
// factor of that kind.
func (n *node) taken(err *takenError, kind string) error {
	other := n.key("factors", kind)
	if err.baseline {
		other = n.key("baseline")
	}
	line := ""
	if other != nil && other.line > 0 {
		line = fmt.Sprintf(" at line %d", other.line)
	}
	at := n.place
	if i := n.index("stacks"); i >= 0 {
		for _, s := range n.values[i].values {
			if j := s.index("name"); j >= 0 && s.values[j].text == err.name {
				at = s.values[j].place
			}
		}
	}
	return at.wrong("%w%s", err, line)
}

// describe lists the parts that a stack can have of a kind.
func describe(kind stack.Kind) []described {
	var list []described
	for _, p := range stack.Choices(kind) {
		list = append(list, described{p.Name, p.Summary, p.Params, p.Near})
	}
	return list
}

// workloads lists the workloads.
func (p Parts) workloads() []described {
	var list []described
	for _, w := range p.Workloads {
		d := w.Describe()
		list = append(list, described{d.Name, d.Summary, d.Params, d.Near})
	}
	return list
}

func word(s string, to *string) error {
	for i, c := range s {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("._-", c)) {
			return fmt.Errorf("invalid name %q (valid: letters, digits, dots, hyphens and underscores, a letter or digit first)",
				s)
		}
	}
	if s == "" || len(s) > 64 {
		return fmt.Errorf("invalid name %q (valid: 1 to 64 characters)", s)
	}
	*to = s
	return nil
}

// whole reads a whole number in a range, both limits included.
func whole(s string, lo, hi int, to *int) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return fmt.Errorf("%q is not a whole number (valid: %d to %d)", s, lo, hi)
	}
	if n < lo || n > hi {
		return fmt.Errorf("%d is out of range (valid: %d to %d)", n, lo, hi)
	}
	*to = n
	return nil
}

// stackFields returns the fields of one stack: one part of each kind.
func stackFields(s *stack.Stack, parts Parts) []field {
	var fields []field
	for _, kind := range parts.Kinds {
		first := true
		d := kind.Describe()
		p := &partShape{kind: d.Name, parts: describe(kind), hint: parts.stackHint(kind), begin: func() { first = true }}
		p.take = func(_ *node, name string, params part.Params) error {
			if !first {
				return errors.New("a stack has one of each kind (lists of values belong into factors)")
			}
			first = false
			c, err := parts.Kinds.Choose(d.Name, name, params)
			*s = s.With(c)
			return err
		}
		fields = append(fields, field{name: d.Name, required: d.Default == "", shape: shape{doc: d.Summary, parts: p}})
	}
	return fields
}

// stackHint returns how to write a whole stack that stands in place of its part of a kind.
func (p Parts) stackHint(kind stack.Kind) func(text string) string {
	return func(text string) string {
		if hint := p.elsewhere(kind.Describe().Name, text); hint != "" {
			return hint
		}
		s, err := p.Kinds.Parse(text)
		if err != nil {
			return ""
		}
		for _, c := range s {
			if other := c.Kind.Describe().Name; !c.Standard() && other != kind.Describe().Name {
				return fmt.Sprintf("%q is a stack, not a %s; give its %s in the key %s (--%s on the command line), "+
					"or name the stack under stacks (nettoll lab up takes --stack)", text, kind.Describe().Name, other, other, other)
			}
		}
		return ""
	}
}

func factors(f *Factors, parts Parts) shape {
	var fields []field
	for _, kind := range parts.Kinds {
		d := kind.Describe()
		known := map[string]int{} // line numbers; 0: from a flag
		fields = append(fields, field{name: d.Name, shape: shape{
			doc: d.Summary + " Each is compared with the baseline.", lone: true,
			items: &shape{parts: &partShape{
				kind: d.Name, parts: describe(kind), hint: parts.stackHint(kind),
				take: func(n *node, name string, params part.Params) error {
					c, err := parts.Kinds.Choose(d.Name, name, params)
					if err != nil {
						return err
					}
					id := Choice{name, params}.key()
					switch line, twice := known[id]; {
					case twice:
						return fmt.Errorf("%s %s is listed twice%s", d.Name, id, first(line))
					case len(f.Of(d.Name)) == maxCells:
						return fmt.Errorf("too many %s: more than %d", d.Plural, maxCells)
					default:
						f.Add(parts.Kinds, c)
						known[id] = n.line
					}
					return nil
				},
			}},
		}})
	}
	fields = append(fields, settingFactors(f)...)
	fields = append(fields,
		field{name: "placement", shape: placements(&f.Placements)},
		field{name: "hosts", shape: listOf(&f.Hosts, shape{
			doc: "Number of container hosts of a cross-host lab.", number: true, pattern: `^[0-9]+$`, example: "2",
		}, func(s string) (n int, err error) { return n, whole(s, minHosts, maxHosts, &n) })},
		field{name: "pairs", shape: listOf(&f.Pairs, shape{
			doc: "Number of pairs of containers that communicate at the same " +
				"time.", number: true, pattern: `^[0-9]+$`, example: "1",
		}, func(s string) (n int, err error) { return n, whole(s, 1, maxPairs, &n) })},
		field{name: "family", shape: listOf(&f.Families, shape{doc: "Address family.", values: choices(Families()...)},
			same)},
		field{name: "affinity", shape: listOf(&f.Affinities, shape{
			doc: "Which CPUs sources and sinks run on.",
			values: []choice{
				{"split", "sources on one set of CPUs, sinks on the other"},
				{"same", "both on the same set"},
				{"free", "the scheduler decides"},
			},
		}, same)},
		field{name: "idle", shape: listOf(&f.Idles, shape{
			doc: "How CPUs wait for work during trials.",
			values: []choice{
				{IdleAuto, "awake where the machine allows it, else deep"},
				{IdleAwake, "they stay awake: no thread has to wake its CPU up first"},
				{IdleDeep, "they sleep as the machine has it"},
			},
		}, same)},
	)
	return shape{doc: "Factors: every combination of their values is measured.", fields: fields}
}

func same(s string) (string, error) { return s, nil }

// listOf returns the shape of a list that replaces the default.
func listOf[T any](to *[]T, one shape, convert func(string) (T, error)) shape {
	fresh := true
	one.take = func(s string) error {
		x, err := convert(s)
		if err != nil {
			return err
		}
		if fresh {
			*to, fresh = nil, false
		}
		*to = append(*to, x)
		return nil
	}
	return shape{doc: one.doc, items: &one, lone: true, done: func(*node) error { fresh = true; return nil }}
}

func placements(to *[]Placement) shape {
	return listOf(to, shape{
		doc: "Which hosts the two containers of a pair are on.",
		values: []choice{
			{string(SameHost), "all pairs on host 1"},
			{string(CrossHost), "sources on one host, sinks on the next"},
		},
	}, func(s string) (Placement, error) { return Placement(s), nil })
}

func namedStacks(e *Experiment, parts Parts) shape {
	var s Stack
	lines := map[string]int{}
	fields := append([]field{{name: "name", required: true, shape: shape{
		doc: "Name of the stack in tables and ids.", example: "calico-like", pattern: `^[A-Za-z0-9][A-Za-z0-9._-]*$`,
		take: func(text string) error {
			if err := word(text, &s.Name); err != nil {
				return err
			}
			return nil
		},
	}}}, stackFields(&s.Parts, parts)...)
	fields = append(fields, settingFields(&s.Settings)...)
	fields = append(fields, field{name: "placement", shape: placements(&s.Placements)})
	return shape{
		doc: "Individual stacks, in addition to those that the factors make.",
		items: &shape{fields: fields, done: func(n *node) error {
			name := n.values[n.index("name")]
			if first, known := lines[s.Name]; known {
				return name.wrong("stack %q is already defined at line %d", s.Name, first)
			}
			lines[s.Name] = name.line
			e.Stacks = append(e.Stacks, s)
			s = Stack{}
			return nil
		}},
	}
}

func workloads(e *Experiment, parts Parts) shape {
	var drivers []string
	var at []Placement
	var pairs []int
	known := []choice{{"nettoll", "nettoll's own engine"}}
	for _, d := range parts.Drivers {
		known = append(known, choice{d.Describe().Name, d.Describe().Summary})
	}
	p := &partShape{
		kind: "workload", parts: parts.workloads(), mix: mixes(e, parts),
		hint: func(text string) string { return parts.elsewhere("workload", text) },
	}
	p.begin = func() { drivers, at, pairs = []string{""}, nil, nil }
	p.own = func(string) []field {
		return []field{
			{name: "driver", shape: listOf(&drivers, shape{doc: "Program that drives the traffic.", values: known},
				func(s string) (string, error) {
					if s == "nettoll" {
						s = ""
					}
					return s, nil
				})},
			{name: "placement", shape: placements(&at)},
			{name: "pairs", shape: listOf(&pairs, shape{
				doc: "Numbers of pairs to run it with, out of those of the experiment.", number: true, pattern: `^[0-9]+$`,
				example: "1",
			}, func(s string) (n int, err error) { return n, whole(s, 1, maxPairs, &n) })},
		}
	}
	p.take = func(_ *node, name string, given part.Params) error {
		c := Choice{Name: name, Params: given}
		d, params, err := parts.described(c)
		if err != nil {
			return err
		}
		for _, name := range drivers {
			if name != "" {
				by, err := parts.Driver(name)
				if err != nil {
					return err
				}
				if err := by.Serves(d, params); err != nil {
					return err
				}
			}
			if err := e.load(Load{Choice: c, Driver: name, Placements: at, Pairs: pairs}); err != nil {
				return err
			}
		}
		return nil
	}
	return shape{doc: "Traffic that the pairs exchange. A parameter given as a list is crossed; a mix is several " +
		"workloads at once.", items: &shape{parts: p}, lone: true}
}

// load adds a workload.
func (e *Experiment) load(l Load) error {
	if len(e.Workloads) == maxCells {
		return fmt.Errorf("too many workloads: more than %d", maxCells)
	}
	e.Workloads = append(e.Workloads, l)
	return nil
}

func design(d *Design, parts Parts) shape {
	probes := []choice{{stack.None, "nothing"}}
	for _, p := range parts.Probes {
		probes = append(probes, choice{p.Describe().Name, p.Describe().Choice})
	}
	number := func(lo, hi int, to *int) func(string) error {
		return func(s string) error { return whole(s, lo, hi, to) }
	}
	return shape{doc: "Precision and duration of the measurement.", fields: []field{
		{name: "precision", shape: shape{
			doc: "Half-width of the 95 % interval at which a cell is precise enough.", pattern: `^[0-9.]+%?$`, number: true,
			example: "2%",
			take:    func(s string) (err error) { d.Precision, err = ParseShare(s); return err },
		}},
		{name: "until", shape: shape{
			doc: "When a cell gives its time to the others. precise: its interval is as narrow as the precision asks for. " +
				"decided: that, or its verdict is decided; in a suite, every claim that needs it. The run ends when none is left.",
			values: []choice{
				{"precise", "its interval is as narrow as the precision asks for"}, {"decided", "that, or its verdict is decided"},
			},
			take: func(s string) error { d.Decided = s == "decided"; return nil },
		}},
		{name: "margin", shape: shape{
			doc: "Change within which two stacks count as equal: \"no difference\" means that the whole interval lies within " +
				"it. The default is 5 %, or twice the precision if that is more.", pattern: `^[0-9.]+%?$`, number: true,
			example: "5%",
			take:    func(s string) (err error) { d.Margin, err = ParseShare(s); return err },
		}},
		{name: "spoiled", shape: shape{
			doc: "Share of a trial for which other programs may have the CPU of a measuring thread. A block with a trial " +
				"beyond it is set aside, together with all trials that are compared with that one. 0: no block is.",
			pattern: `^[0-9.]+%?$`, number: true, example: "5%",
			take: func(s string) (err error) {
				if d.Spoiled = 0; s != "0" && s != "0%" {
					d.Spoiled, err = ParseShare(s)
				}
				return err
			},
		}},
		{name: "time", shape: shape{
			doc: "Maximum measuring time, not including the time to build and remove " +
				"labs.", pattern: `^[0-9.]+(ms|s|m|h)`, example: "60s",
			take: func(s string) (err error) { d.Time, err = parseDuration(s, time.Millisecond, maxTime); return err },
		}},
		{name: "generations", shape: shape{
			doc: "Minimum number of generations: how often everything is " +
				"rebuilt.", pattern: `^[0-9]+$`, number: true, example: "5",
			take: number(minGenerations, maxGenerations, &d.Generations),
		}},
		{name: "trial", shape: shape{
			doc: "Length of a trial; auto is the shortest sound length for each " +
				"workload.", pattern: `^(auto|[0-9.]+(us|ms|s|m).*)$`,
			example: "auto",
			take: func(s string) (err error) {
				if d.Trial = 0; s != "auto" {
					if d.Trial, err = parseDuration(s, time.Millisecond, maxTrial); err != nil {
						err = fmt.Errorf("%w, or auto", err)
					}
				}
				return err
			},
		}},
		{name: "seed", shape: shape{
			doc: "Seed of the order, the ports and the MAC addresses.", pattern: `^[0-9]+$`, number: true, example: "1",
			take: func(s string) (err error) {
				if d.Seed, err = strconv.ParseUint(s, 10, 64); err != nil {
					err = fmt.Errorf("%q is not a whole number (valid: 0 or more)", s)
				}
				return err
			},
		}},
		{name: "probe", shape: shape{
			doc: "Probe with which every cell is measured again, in separate trials that do not influence stopping; its cost " +
				"is reported. Root is required.",
			values: probes,
			take: func(s string) error {
				if d.Probe = s; s == stack.None {
					d.Probe = ""
				}
				return nil
			},
		}},
	}}
}

func proof(p *Proof) shape {
	return shape{doc: "How thoroughly labs are proved, before the blocks and after.", fields: []field{
		{name: "budget", shape: shape{
			doc: "Share of the measuring time for trying who reaches whom, at least 2 s in a run. If the time is too " +
				"short for all tries, a random part of them is made, and reports show how many. 0: none is made.",
			pattern: `^[0-9.]+%?$`, number: true, example: "5%",
			take: func(s string) (err error) {
				if p.Budget = 0; s != "0" && s != "0%" {
					p.Budget, err = ParseShare(s)
				}
				return err
			},
		}},
		{name: "attacks", shape: attacks(p)},
	}}
}

func attacks(p *Proof) shape {
	var values []choice
	for _, w := range AttackWords() {
		values = append(values, choice{w[0], w[1]})
	}
	for _, a := range Attacks() {
		values = append(values, choice{name: string(a)})
	}
	var names []string
	list := listOf(&names, shape{
		doc: "Attacks on each lab after its last proof, from inside its containers and from the wire between hosts. " +
			"nettoll list attacks explains them. They take seconds each; by default none is made.", values: values,
	}, same)
	again := list.done
	list.done = func(n *node) (err error) {
		if p.Attacks, err = ChosenAttacks(names); err != nil {
			return n.wrong("%w", err)
		}
		return again(n)
	}
	return list
}

func tune(t *Tune) shape {
	return shape{doc: "Settings of all stacks that have none of their own.", fields: []field{
		{name: "congestion-control", alias: "congestion_control", shape: shape{
			doc:     "TCP congestion control of all cells; auto is the first of cubic, reno, bbr that all can set.",
			pattern: `^[a-z0-9_-]+$`, example: "auto",
			take: func(s string) error { return word(s, &t.Congestion) },
		}},
		{name: "mtu", shape: shape{
			doc: "MTU of every link, loopback included, in bytes.", pattern: `^[0-9]+B?$`, number: true, example: "1500",
			take: func(s string) (err error) { t.MTU, err = mtu(s); return err },
		}},
	}}
}

func underlay(m *network.Medium) shape {
	return shape{
		doc: "Links that join the hosts of cross-host labs; by default as fast as the kernel allows.",
		fields: []field{
			{name: "rate", shape: shape{
				doc:     "Rate of each link between hosts, each way, in bits of Ethernet frames per second.",
				pattern: `^[0-9.]+[kMG]?bit(/s)?$`, example: "1Gbit/s",
				take: func(s string) error {
					if strings.HasSuffix(s, "bit") { // as in tc(8)
						s += "/s"
					}
					x, err := part.ParseBitRate(s)
					if err == nil && x < minRate {
						err = fmt.Errorf("%q is out of range (valid: 64kbit/s to 1000Gbit/s)", s)
					}
					m.Rate = int64(x)
					return err
				},
			}},
			{name: "delay", shape: shape{
				doc: "Delay of each packet that leaves its host; a round trip takes it twice. Without sch_netem in the kernel, a " +
					"process of nettoll delays packets.",
				pattern: `^[0-9.]+(us|µs|ms|s)$`, example: "1ms",
				take: func(s string) (err error) { m.Delay, err = parseDuration(s, time.Microsecond, maxDelay); return err },
			}},
			{name: "jitter", shape: shape{
				doc: "How much shorter or longer each delay is at most, at random, all values equally likely; at most the delay. " +
					"Packets of a host do not overtake each other.",
				pattern: `^[0-9.]+(us|µs|ms|s)$`, example: "200us",
				take: func(s string) (err error) {
					m.Jitter, err = parseDuration(s, time.Microsecond, maxDelay)
					return err
				},
			}},
			{name: "loss", shape: shape{
				doc: "Share of packets between hosts that are lost at random, by what delays them; a large segment is one " +
					"packet.",
				pattern: `^[0-9.]+%?$`, number: true, example: "0.1%",
				take: func(s string) (err error) { m.Loss, err = ParseShare(s); return err },
			}},
			{name: "mtu", shape: shape{
				doc: "MTU of the links between hosts, in bytes; by default tune.mtu. Containers on different hosts get the rest " +
					"after tunnel and encryption overhead, at most tune.mtu.", pattern: `^[0-9]+B?$`, number: true, example: "9000",
				take: func(s string) (err error) { m.MTU, err = mtu(s); return err },
			}},
			{name: "hops", shape: shape{
				doc: "Routers between two hosts: 0: hosts are neighbours; 1: one router joins all hosts, each in a range of its " +
					"own; 2: each host has a router.",
				pattern: `^[0-2]$`, number: true, example: "1",
				take: func(s string) error { return whole(s, 0, network.MaxHops, &m.Hops) },
			}},
			{name: "paths", shape: shape{
				doc: "Equal paths between the routers of two hosts: with 2, each flow takes one of them, by its addresses and " +
					"ports.", pattern: `^[12]$`, number: true, example: "2",
				take: func(s string) error { return whole(s, 1, network.MaxPaths, &m.Paths) },
			}},
		},
	}
}

// mtu reads the MTU of links.
func mtu(s string) (int, error) {
	text, err := part.SizeBetween(minMTU, maxMTU)(s)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// ParseShare reads "2%" or "0.02": more than 0 and less than 1.
func ParseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(x) {
		return 0, fmt.Errorf("invalid share %q (valid: 2%% or 0.02)", s)
	}
	if percent {
		x /= 100
	}
	if x <= 0 || x >= 1 {
		return 0, fmt.Errorf("%q is out of range (valid: more than 0 and less than 100%%, such as 2%% or 0.02)", s)
	}
	return x, nil
}

// parseDuration reads "30s", "1m30s", "500ms".
func parseDuration(s string, lo, hi time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("invalid duration %q (valid: numbers with the units ms, s, m and h, such as 500ms, 30s or "+
			"1m30s; at most %s)", s, part.DurationText(hi))
	}
	if d < lo || d > hi {
		return 0, fmt.Errorf("%q is out of range (valid: %s to %s)", s, part.DurationText(lo), part.DurationText(hi))
	}
	return d, nil
}
