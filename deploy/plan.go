package deploy

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic/program"
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

// A Question is sent to a host before a lab is built: about the lab, or about a program.
type Question struct {
	Stack    string          `json:"stack,omitempty"` // id, with every parameter
	Underlay network.Medium  `json:"underlay"`
	Program  *program.Needed `json:"program,omitempty"` // nil: the question is about the lab
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

// Answer returns a function that answers a [Question] on a host. The error is nil if the lab can be built there, or if
// the program is installed. The answer is the version of the program, see [program.Needed.Version].
func Answer(kinds stack.Kinds) func(ctx context.Context, question json.RawMessage) (any, error) {
	return func(ctx context.Context, question json.RawMessage) (any, error) {
		var q Question
		if err := json.Unmarshal(question, &q); err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
		if q.Program != nil {
			return q.Program.Version(ctx)
		}
		if err := q.Underlay.Check(); err != nil {
			return nil, err
		}
		s, err := kinds.Parse(q.Stack)
		if err != nil {
			return nil, err
		}
		return nil, s.Check()
	}
}
