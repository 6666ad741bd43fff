package deploy

import (
	"encoding/json"
	"fmt"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
)

// A Plan holds the plans of the hosts of a lab.
type Plan struct {
	*network.Site           // with the plans of its hosts
	Underlay      host.Plan // of the network between hosts; empty on one host
}

// Plan collects the steps that each kind of part adds to the plans of the lab's hosts. It is pure.
func (s Spec) Plan() (Plan, error) {
	p := Plan{Site: &network.Site{Lab: s.Net, Families: s.Families, Pairs: s.Pairs}}
	if err := network.Build(p.Site, s.Stack); err != nil {
		return Plan{}, fmt.Errorf("plan lab %s: %w", s.ID, err)
	}
	if len(s.Net.Hosts) > 1 {
		n, _, _ := stack.PartOf[network.Network](s.Stack)
		p.Underlay = network.Underlay(n, p.Lab)
	}
	return p, nil
}

// Loads reports whether labs with this stack measure the cost of loading and updating rules or entries. No other lab
// may be built at the same time as such a lab.
func Loads(s stack.Stack) bool {
	f, _ := filter.Of(s)
	t, params, ok := stack.PartOf[network.Tracker](s)
	return f != nil || ok && t.Tracked(params) > 0
}

// Borrowed lists what a lab with this stack takes from the machine: "NIC eth1".
func Borrowed(s stack.Stack) []string {
	if b, params, ok := stack.PartOf[network.Borrower](s); ok {
		return b.Borrows(params)
	}
	return nil
}

// A Question is sent to a host before a lab is built.
type Question struct {
	Stack    string         `json:"stack"` // id, with every parameter
	Underlay network.Medium `json:"underlay"`
}

// Question returns the question for a host of the lab.
func (s Spec) Question() Question {
	kinds := make(stack.Kinds, len(s.Stack))
	for i, c := range s.Stack {
		kinds[i] = c.Kind
	}
	q := Question{Stack: kinds.ID(s.Stack)}
	if len(s.Net.Hosts) > 1 {
		q.Underlay = s.Net.Underlay
	}
	return q
}

// Answer returns a function that answers a [Question] on a host: nil if the lab can be built there.
func Answer(kinds stack.Kinds) func(question json.RawMessage) error {
	return func(question json.RawMessage) error {
		var q Question
		if err := json.Unmarshal(question, &q); err != nil {
			return fmt.Errorf("read the request: %w", err)
		}
		if err := q.Underlay.Check(); err != nil {
			return err
		}
		s, err := kinds.Parse(q.Stack)
		if err != nil {
			return err
		}
		return s.Check()
	}
}
