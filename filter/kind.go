package filter

import (
	"fmt"
	"maps"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
	"github.com/nettoll/nettoll/stack"
)

// Kind is the kind of parts that enforce an allow-list: all of them, in the order of help.
type Kind []Filter

// Describe says what the kind is.
func (Kind) Describe() stack.Description {
	return stack.Description{
		Name: "filter", Plural: "filters", Summary: "Enforces an allow-list.",
		Note: OfHosts + "; under macvlan, ipvlan and passthrough, " + OfInside,
		Sign: "+", Default: stack.None,
	}
}

// Parts lists the filters.
func (k Kind) Parts() []stack.Part {
	list := make([]stack.Part, len(k))
	for i, f := range k {
		list[i] = stack.Part{Description: f.Describe().Description, Value: f}
	}
	return list
}

// Steps returns the kinds of steps that filters bring.
func (k Kind) Steps() map[string]func() host.Step {
	all := map[string]func() host.Step{}
	for _, f := range k {
		maps.Copy(all, f.Describe().Steps)
	}
	return all
}

// Metrics returns what filters declare.
func (Kind) Metrics() []measure.Metric { return Metrics() }

// Of returns the filter of a stack, nil if it has none.
func Of(s stack.Stack) (Filter, part.Params) {
	f, params, ok := stack.PartOf[Filter](s)
	if !ok {
		return nil, nil
	}
	return f, params
}

// At returns where the packets of a stack's containers can be filtered, "" if they cannot, and the name of the bridge
// there.
func At(s stack.Stack) (at network.Point, bridge string) {
	g, params, ok := stack.PartOf[network.Filterable](s)
	if !ok {
		return "", ""
	}
	return g.FilterPoint(params)
}

// Refuse returns why the filter of a stack cannot be enforced in labs of so many hosts, "" if it can or there is none.
func (Kind) Refuse(s stack.Stack, hosts int) string {
	f, params := Of(s)
	n, ofNetwork, ok := stack.PartOf[network.Network](s)
	if f == nil || !ok {
		return ""
	}
	d := n.Describe()
	w := Where{Network: d.Name, Hosts: hosts}
	if w.Point, _ = At(s); w.Point == "" {
		return fmt.Sprintf("network %s has no point at which packets between containers can be filtered",
			d.Params.Short(d.Name, ofNetwork))
	}
	if u, ok := n.(network.Unfilterable); ok {
		if why := u.Unfilterable(hosts, ofNetwork); why != "" {
			return why
		}
	}
	if t, ok := n.(network.Translator); ok {
		w.Translated = t.Translates(hosts, ofNetwork)
	}
	return f.Refuse(w, params)
}

// Enforced says where the filter of a stack stands and what it claims besides its allow-list.
func (Kind) Enforced(s stack.Stack) string {
	f, params := Of(s)
	at, _ := At(s)
	if f == nil || at == "" {
		return ""
	}
	return Enforced(f, at, params)
}

// Claims returns what the filter of a stack says about attacks.
func (Kind) Claims(s stack.Stack, _ int) threat.Claims {
	f, params := Of(s)
	at, _ := At(s)
	if f == nil || f.Describe().Claims == nil {
		return nil
	}
	return f.Describe().Claims(at, params)
}

// Check returns why the filter of a stack cannot be built on this machine, see [Checker].
func (Kind) Check(s stack.Stack) error {
	f, params := Of(s)
	if c, ok := f.(Checker); ok {
		return c.Check(params)
	}
	return nil
}

// Build adds the steps of the stack's filter to the plan of each host.
func (Kind) Build(site *network.Site, s stack.Stack) error {
	f, params := Of(s)
	if f == nil {
		return nil
	}
	at, bridge := At(s)
	for h, one := range Sites(site, at, bridge, params) {
		steps, err := f.Build(one)
		if err != nil {
			return fmt.Errorf("filter %s: %w", f.Describe().Name, err)
		}
		site.Plans[h].Steps = append(site.Plans[h].Steps, steps...)
	}
	return nil
}

// Costs of loading on the reference machine, rounded up.
const (
	// loadTime is to load a filter and try what changing it costs, of each lab.
	loadTime = 300 * time.Millisecond
	// ruleTime is to load and verify one of its decoy rules on one host: 15 µs with eBPF, 50 µs with a verdict map.
	ruleTime = 40 * time.Microsecond
)

// BuildTime returns how long the filter of a stack takes to load in a lab of so many hosts, as a guess.
func (Kind) BuildTime(s stack.Stack, hosts, _ int) time.Duration {
	f, params := Of(s)
	if f == nil {
		return 0
	}
	return loadTime + time.Duration(hosts*params.Count(Rules))*ruleTime
}
