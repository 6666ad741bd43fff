package filtertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/stack"
)

// A Subject is a filter and what the suite must know of it.
type Subject struct {
	Filter filter.Filter
	// State says what the filter's kind of thing is in a namespace of a host ("" is the host's own), without counters and
	// handles: "iptables-save" without its figures. Before the filter is applied and after it was undone it is the same.
	State func(k *host.Kernel, ns string) (string, error)
	// Tampers change what stands behind the back of the plan; at least one takes a rule away, and the others are all that
	// the part knows of that lets packets pass beside its rules. Verify has to notice each.
	Tampers []Tamper
	// Revoke takes a rule away that [filter.Step.UpdateRule] has added, and leaves the connections that it let begin. If
	// nil, UpdateRule does so.
	Revoke func(k *host.Kernel, r filter.Rule) error
}

// An On is a network on which the filter is tried.
type On struct {
	Network network.Network
	Params  map[string]string
	Hosts   int // 0: one
	// Floods says that a switch hands ARP and neighbour discovery on to all of its ports, as a bridge of the kernel does
	// anyway.
	Floods bool
	// Between is the tunnel and the encryption between the hosts, if any.
	Between stack.Stack
}

// Conformance runs the suite on a filter on each of the networks, once with each of the parameters given. A network on
// which it is refused with some of them is left out with those; on one at least it is not. All tampers are tried on the
// first, and two of them on the others. On the others, lists of one family are left to make test-slow. The package's
// TestMain calls [testnet.Main].
func Conformance(t *testing.T, s Subject, on []On, variants ...map[string]string) {
	d := s.Filter.Describe()
	if len(variants) == 0 {
		variants = []map[string]string{nil}
	}
	for _, given := range variants {
		params, err := d.Params.Resolve("filter "+d.Name, given)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(d.Params.Short(d.Name, params), func(t *testing.T) {
			t.Run("description", func(t *testing.T) { report(t, s.description()) })
			tried := 0
			for _, o := range on {
				c, err := newCase(s, o, params)
				if err != nil {
					t.Fatal(err)
				}
				if c.refused != "" {
					t.Logf("refused on %s: %s", c.name(), c.refused)
					continue
				}
				c.again = tried > 0
				tried++
				t.Run(c.name(), func(t *testing.T) {
					testnet.Turn(t)
					t.Parallel() // most of it is waiting for what must not come
					for _, check := range c.checks() {
						t.Run(check.name, func(t *testing.T) {
							if check.name == oneFamily && c.again {
								testnet.Slow(t, "on the first network it is tried")
							}
							report(t, check.run(t))
						})
					}
				})
			}
			if tried == 0 {
				t.Error("it is refused on every network that was given")
			}
		})
	}
}

// Check runs the checks of the suite that have these names on a filter with the parameters given, on one network: for a
// guest, which is slow and has only one thing to show.
func Check(t *testing.T, s Subject, on On, given map[string]string, names ...string) {
	d := s.Filter.Describe()
	params, err := d.Params.Resolve("filter "+d.Name, given)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCase(s, on, params)
	if err != nil || c.refused != "" {
		t.Fatalf("it cannot be tried: %s%v", c.refused, err)
	}
	for _, check := range c.checks() {
		if slices.Contains(names, check.name) {
			t.Run(d.Params.Short(d.Name, params)+"/"+c.name()+"/"+check.name, func(t *testing.T) { report(t, check.run(t)) })
		}
	}
}

func report(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errors.ErrUnsupported) {
		testnet.Skip(t, err)
	} else if err != nil {
		t.Error(err)
	}
}

func (s Subject) description() error {
	d := s.Filter.Describe()
	if d.Name == "" || strings.ToLower(d.Name) != d.Name {
		return fmt.Errorf("the name is %q, want a word of small letters", d.Name)
	}
	if d.Summary == "" || strings.HasSuffix(d.Summary, ".") {
		return fmt.Errorf("the summary is %q, want a sentence without its full stop", d.Summary)
	}
	if known := []string{"kernel", "ebpf", "ovs", "userspace"}; !slices.Contains(known, d.Implementation) {
		return fmt.Errorf("the implementation is %q (known: %s)", d.Implementation, strings.Join(known, ", "))
	}
	for _, p := range filter.Params() {
		if !slices.Contains(d.Params.Names(), p.Name) {
			return fmt.Errorf("it has no parameter %q, which every filter has", p.Name)
		}
	}
	if d.Fragments == nil || d.Errors == nil || d.Extensions == nil {
		return errors.New("it does not say what it does with fragments, errors of ICMP and options of IPv6")
	}
	if len(s.Tampers) == 0 || s.State == nil {
		return errors.New("the suite was not told how to tamper with it, or how to look at it")
	}
	for _, point := range []network.Point{
		network.AtBridge, network.AtForward, network.InContainer, network.AtOpenFlow, network.AtTCX,
	} {
		params, err := d.Params.Resolve("filter "+d.Name, nil)
		if err != nil {
			return err
		}
		reason := s.Filter.Refuse(filter.Where{Network: "x", Point: point, Hosts: 1}, params)
		if reason != "" && (!strings.Contains(reason, " ") || strings.HasSuffix(reason, ".") ||
			strings.ContainsAny(reason, "\n\t")) {
			return fmt.Errorf("it is refused %s because %q, want a sentence without its full stop", point, reason)
		}
	}
	return nil
}

// trial is a filter with parameters on a network.
type trial struct {
	Subject
	on         On
	params     part.Params // of the filter
	network    part.Params
	where      filter.Where
	bridge     string
	refused    string
	translated bool
	pairs      int  // of a lab
	again      bool // all tampers were tried on another network
	fragments  filter.Fragments
	errors     filter.Errors
	extensions filter.Extensions
}

func newCase(s Subject, on On, params part.Params) (*trial, error) {
	on.Hosts = max(1, on.Hosts)
	says := s.Filter.Describe()
	c := &trial{
		Subject: s, on: on, pairs: pairs, params: params, fragments: says.Fragments(params),
		errors: says.Errors(params), extensions: says.Extensions(params),
	}
	d := on.Network.Describe()
	var err error
	if c.network, err = d.Params.Resolve("network "+d.Name, on.Params); err != nil {
		return nil, err
	}
	g, ok := on.Network.(network.Filterable)
	if !ok {
		return nil, fmt.Errorf("network %s cannot be filtered", d.Name)
	}
	if x, ok := on.Network.(network.Excluder); ok {
		if reason := x.Exclude(on.Hosts, c.network); reason != "" {
			return nil, fmt.Errorf("network %s: %s", d.Name, reason)
		}
	}
	if x, ok := on.Network.(network.Translator); ok {
		c.translated = x.Translates(on.Hosts, c.network)
	}
	at, bridge := g.FilterPoint(c.network)
	c.where, c.bridge = filter.Where{Network: d.Name, Point: at, Hosts: on.Hosts, Translated: c.translated}, bridge
	c.refused = s.Filter.Refuse(c.where, params)
	return c, nil
}

func (c *trial) name() string {
	d := c.on.Network.Describe()
	return fmt.Sprintf("%s,hosts=%d", d.Params.Short(d.Name, c.network), c.on.Hosts)
}

type check struct {
	name string
	run  func(testing.TB) error
}

func (c *trial) checks() []check {
	list := []check{
		{"plan", c.plan},
		{"packets, ipv4 and ipv6", func(t testing.TB) error { return c.packets(t, []string{"ipv4", "ipv6"}) }},
		{oneFamily, func(t testing.TB) error { return c.packets(t, []string{"ipv4"}) }},
		{"change", c.change},
		{"spoofing", c.spoofing},
		{"tampering", c.tampering},
		{"undo", c.undo},
		{"undo from data", c.fromData},
	}
	if c.params.On(filter.Stateful) && c.on.Hosts == 1 {
		list = append(list, check{"lasting connections", c.lasting})
	}
	return list
}

// oneFamily is the check of labs whose pairs talk in one family only: nothing of the other one may pass.
const oneFamily = "packets, ipv4"

// pairs of most labs, as networktest.Lab names them.
const pairs = 2

// Ports of containers: the first of a host's, how many each has, and how many of those are ephemeral.
const (
	firstPort = 20_000
	portsEach = 50
	ephemeral = 40
)

// Lab is that of [networktest.Lab], in which each container has ports besides, for its sockets that bind to none.
func Lab(hosts, pairs int) network.Lab {
	lab := networktest.Lab(hosts, pairs)
	for _, h := range lab.Hosts {
		for i := range h.Containers {
			first := uint16(firstPort + i*portsEach)
			behind := first + portsEach - ephemeral
			h.Containers[i].Ports, h.Containers[i].Ephemeral = network.Ports{First: first, Last: behind - 1},
				network.Ports{First: behind, Last: first + portsEach - 1}
		}
	}
	return lab
}

// roomy is the MTU of the underlay in bytes, if something stands on it.
const roomy = 1500

// lab returns a lab, and which containers of it are pairs.
func (c *trial) lab() (network.Lab, []network.Pair, error) {
	lab := Lab(c.on.Hosts, c.pairs)
	if len(c.on.Between) > 0 {
		lab.MTU = roomy
		var err error
		if lab, err = network.Compose(lab, c.on.Between); err != nil {
			return lab, nil, err
		}
	}
	lab.Params = maps.Clone(c.network)
	list := make([]network.Pair, c.pairs)
	for h, of := range lab.Hosts {
		for i, container := range of.Containers {
			var n int
			spot := network.Spot{Host: h, Container: i}
			if _, err := fmt.Sscanf(container.Name, "src%d", &n); err == nil {
				list[n].Source = spot
			} else if _, err := fmt.Sscanf(container.Name, "snk%d", &n); err == nil {
				list[n].Sink = spot
			}
		}
	}
	return lab, list, nil
}

// stand is a lab with the filter, as far as it was applied.
type stand struct {
	*networktest.Bed
	sites []filter.Site
	plans []host.Plan   // of the filter, by host
	steps []filter.Step // that enforce, of all hosts
	at    []*host.Kernel
	pairs []network.Pair
}

// Plan returns the filter's part of the plan of the first host, with both families. It needs no kernel.
func Plan(t testing.TB, f filter.Filter, on On, given map[string]string) host.Plan {
	t.Helper()
	d := f.Describe()
	params, err := d.Params.Resolve("filter "+d.Name, given)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCase(Subject{Filter: f}, on, params)
	if err != nil {
		t.Fatal(err)
	}
	if c.refused != "" {
		t.Fatalf("the filter is refused: %s", c.refused)
	}
	lab, pairs, err := c.lab()
	if err != nil {
		t.Fatal(err)
	}
	_, ends, err := network.Join(on.Network, lab)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := f.Build(c.sites(&network.Site{
		Lab: lab, Endpoints: ends, Pairs: pairs, Families: []string{"ipv4", "ipv6"},
	})[0])
	if err != nil {
		t.Fatal(err)
	}
	return host.Plan{Steps: steps}
}

func (c *trial) sites(of *network.Site) []filter.Site {
	return filter.Sites(of, c.where.Point, c.bridge, c.params)
}

// build makes the namespaces and plans; nothing is applied.
func (c *trial) build(t testing.TB, families []string) (*stand, error) {
	lab, pairs, err := c.lab()
	if err != nil {
		return nil, err
	}
	bed, err := networktest.MakeBed(t, c.on.Network, lab)
	if err != nil {
		return nil, err
	}
	s := &stand{
		Bed: bed, pairs: pairs,
		sites: c.sites(&network.Site{Lab: lab, Endpoints: bed.Ends, Pairs: pairs, Families: families}),
	}
	for h, site := range s.sites {
		steps, err := c.Filter.Build(site)
		if err != nil {
			return nil, err
		}
		s.plans = append(s.plans, host.Plan{Steps: steps})
		for _, step := range steps {
			if step, ok := step.(filter.Step); ok {
				s.steps, s.at = append(s.steps, step), append(s.at, bed.Hosts[h].Kernel)
			}
		}
	}
	if len(s.steps) < len(s.sites) {
		return nil, fmt.Errorf("%d hosts, and %d steps that enforce a list", len(s.sites), len(s.steps))
	}
	return s, nil
}

// raise builds a lab and applies everything.
func (c *trial) raise(t testing.TB, families []string) (*stand, error) {
	s, err := c.build(t, families)
	if err != nil {
		return nil, err
	}
	if err := s.Apply(t); err != nil {
		return nil, errors.Join(err, s.Undo())
	}
	if err := s.filter(t); err != nil {
		return nil, errors.Join(err, s.Undo())
	}
	if err := s.Verify(t); err != nil {
		return nil, errors.Join(fmt.Errorf("after all plans were applied: %w", err), s.Undo())
	}
	return s, nil
}

// filter applies the plans of the filter.
func (s *stand) filter(t testing.TB) error {
	for h, p := range s.plans {
		if err := s.Hosts[h].Stack.Apply(t.Context(), s.Hosts[h].Kernel, p); err != nil {
			return err
		}
	}
	return nil
}

// state says what is in all namespaces.
func (c *trial) state(s *stand) (map[string]string, error) {
	all, err := s.Snapshot()
	if err != nil {
		return nil, err
	}
	for what, text := range all { // addresses of link scope come when they come
		if fields := strings.Fields(text); strings.Contains(what, "link ") {
			all[what] = strings.Join(slices.DeleteFunc(fields, func(f string) bool { return strings.HasPrefix(f, "fe80::") }),
				" ")
		}
	}
	for h, m := range s.Hosts {
		for _, ns := range s.namespaces(h) {
			text, err := c.State(m.Kernel, ns)
			if err != nil {
				return nil, err
			}
			all[fmt.Sprintf("filter of host %d, namespace %q", h+1, ns)] = text
		}
	}
	return all, nil
}

func (s *stand) namespaces(h int) []string {
	list := []string{""}
	for _, e := range s.Ends[h] {
		if e.Namespace != "" {
			list = append(list, e.Namespace)
		}
	}
	return list
}

// plan wants the same plan twice, one that is written and read again as the same, with sentences.
func (c *trial) plan(t testing.TB) error {
	lab, pairs, err := c.lab()
	if err != nil {
		return err
	}
	_, ends, err := c.on.Network.Build(lab)
	if err != nil {
		return err
	}
	kinds := host.Steps()
	maps.Copy(kinds, c.Filter.Describe().Steps)
	for _, site := range filter.Sites(&network.Site{
		Lab: lab, Endpoints: ends, Pairs: pairs, Families: []string{"ipv4", "ipv6"},
	}, c.where.Point, c.bridge, c.params) {
		var texts []string
		for range 2 {
			steps, err := c.Filter.Build(site)
			if err != nil {
				return err
			}
			data, err := json.Marshal(host.Plan{Steps: steps})
			if err != nil {
				return err
			}
			read, err := host.Decoder{Kinds: kinds}.Decode(data)
			if err != nil {
				return err
			}
			again, err := json.Marshal(read)
			if err != nil {
				return err
			}
			if diff := cmp.Diff(string(data), string(again)); diff != "" {
				return fmt.Errorf("written and read again it is another plan:\n%s", diff)
			}
			for i, step := range steps {
				if before, after := step.String(), read.Steps[i].String(); before != after || before == "" ||
					strings.Contains(before, "\n") {
					return fmt.Errorf("step %d says %q, and %q when it was read again", i+1, before, after)
				}
			}
			texts = append(texts, string(data))
		}
		if texts[0] != texts[1] {
			return fmt.Errorf("it builds two plans for one site:\n%s", cmp.Diff(texts[0], texts[1]))
		}
	}
	return nil
}

// change wants a rule that is added to let its flow pass and no other, established flows to survive that, and the
// figures of it.
func (c *trial) change(t testing.TB) (err error) {
	s, err := c.raise(t, []string{"ipv4", "ipv6"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Undo()) }()
	flows, err := attack.Connect(s.described(c, []string{"ipv4", "ipv6"}, true))
	if err != nil {
		return err
	}
	defer flows.Close()
	if err := flows.Survive("before a change").Err(); err != nil {
		return err
	}
	for i, step := range s.steps {
		if err := step.MeasureCost(t.Context(), s.at[i]); err != nil {
			return err
		}
	}
	if c.on.Hosts == 1 {
		report := s.at[0].Report()
		for _, name := range []string{"rules_load_time", "rules_memory", "rule_update_time", "rule_effect_time"} {
			if v, ok := report.Metrics[name]; !ok || v < 0 {
				return fmt.Errorf("it tells %s = %v (%v), want a figure", name, v, ok)
			}
		}
	}
	if err := flows.Survive("after changes").Err(); err != nil {
		return err
	}
	if err := s.Verify(t); err != nil {
		return fmt.Errorf("after changes were taken back: %w", err)
	}
	// A rule that was added and never taken back is removed with the step.
	for i, step := range s.steps {
		if flow := step.Listed().Proof; flow != nil {
			if err := step.UpdateRule(s.at[i], flow.Rule, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// undo wants everything as it was before, after one Undo and after another, and a second Apply to change nothing of
// what stands.
func (c *trial) undo(t testing.TB) error {
	s, err := c.build(t, []string{"ipv4", "ipv6"})
	if err != nil {
		return err
	}
	if err := s.Apply(t); err != nil {
		return errors.Join(err, s.Undo())
	}
	before, err := c.state(s)
	if err != nil {
		return errors.Join(err, s.Undo())
	}
	for range 2 {
		var stacks []*host.Stack
		undo := func() error {
			var errs []error
			for h, stack := range stacks {
				errs = append(errs, stack.Undo(t.Context(), s.Hosts[h].Kernel))
			}
			return errors.Join(errs...)
		}
		for h, p := range s.plans {
			stack := new(host.Stack)
			stacks = append(stacks, stack)
			if err := stack.Apply(t.Context(), s.Hosts[h].Kernel, p); err != nil {
				return errors.Join(err, undo(), s.Undo())
			}
		}
		if err := c.twice(t, s, stacks); err != nil {
			return errors.Join(err, undo(), s.Undo())
		}
		for range 2 {
			if err := undo(); err != nil {
				return errors.Join(err, s.Undo())
			}
			after, err := c.state(s)
			if err != nil {
				return errors.Join(err, s.Undo())
			}
			if diff := cmp.Diff(before, after); diff != "" {
				return errors.Join(fmt.Errorf("undone, it is not as it was (-before +after):\n%s", diff), s.Undo())
			}
		}
	}
	return s.Undo()
}

// fromData wants every step of the filter to be undone from data alone.
func (c *trial) fromData(t testing.TB) error {
	s, err := c.build(t, []string{"ipv4", "ipv6"})
	if err != nil {
		return err
	}
	if err := s.Apply(t); err != nil {
		return errors.Join(err, s.Undo())
	}
	kinds := host.Steps()
	maps.Copy(kinds, c.Filter.Describe().Steps)
	for h, p := range s.plans {
		m := s.Hosts[h]
		subject := m.Subject(kinds)
		subject.More = func() (map[string]string, error) {
			all := map[string]string{}
			for _, ns := range s.namespaces(h) {
				text, err := c.State(m.Kernel, ns)
				if err != nil {
					return nil, err
				}
				all[ns+": filter"] = text
			}
			return all, nil
		}
		if err := subject.Undone(t, &m.Stack, p); err != nil {
			return errors.Join(err, s.Undo())
		}
	}
	return s.Undo()
}

// twice applies what stands once more: that fails or does nothing.
func (c *trial) twice(t testing.TB, s *stand, stacks []*host.Stack) error {
	first, err := c.state(s)
	if err != nil {
		return err
	}
	for h, p := range s.plans {
		var second host.Stack
		if err := second.Apply(t.Context(), s.Hosts[h].Kernel, p); err == nil {
			if err := second.Undo(t.Context(), s.Hosts[h].Kernel); err != nil {
				return fmt.Errorf("undo a second apply: %w", err)
			}
		}
		if err := stacks[h].Verify(t.Context(), s.Hosts[h].Kernel); err != nil {
			return fmt.Errorf("after a second apply, undone: %w", err)
		}
	}
	after, err := c.state(s)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(first, after); diff != "" {
		return fmt.Errorf("a second apply, undone, changes what stands (-before +after):\n%s", diff)
	}
	return nil
}
