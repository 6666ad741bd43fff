package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/experiment"
)

// written returns the changes of the default experiment that make a stack of it which is written as its parts: "routed+nftables(rules=1000)"; false where it does not begin
// with a network that there is.
func (a *app) written(stack string) ([]experiment.Setting, bool) {
	named, _, _ := strings.Cut(stack, "(")
	named, _, _ = strings.Cut(named, "+")
	if !slices.Contains(a.networks(), named) {
		return nil, false
	}
	at, depth := len(stack), 0 // of the plus between the parts: a NIC's name may have one
	for i, r := range stack {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == '+' && depth == 0:
			at = min(at, i)
		}
	}
	var written []experiment.Setting
	for i, one := range []string{stack[:at], strings.TrimPrefix(stack[at:], "+")} {
		if one == "" {
			continue
		}
		kind := []string{"network", "filter"}[i]
		text, err := flow(kind, one)
		if err != nil {
			return nil, false // the stack is unknown
		}
		written = append(written, experiment.Setting{Flag: "--stack", Path: "factors." + kind, Value: text})
	}
	return written, true
}

// stackOf is the part of a lab's id that says which stack it is.
func stackOf(l experiment.Lab) string {
	stack, _, _ := strings.Cut(l.ID, "/")
	return stack
}

func stackNames(r *experiment.Resolved) []string {
	var names []string
	for _, l := range r.Labs {
		if !slices.Contains(names, stackOf(l)) {
			names = append(names, stackOf(l))
		}
	}
	return names
}

// chooseLab returns the first lab of a stack, alone.
func chooseLab(r *experiment.Resolved, stack, placement string) (*experiment.Resolved, error) {
	names := stackNames(r)
	i := slices.IndexFunc(r.Labs, func(l experiment.Lab) bool { return stackOf(l) == stack })
	if i >= 0 {
		return r.Only(i), nil
	}
	known := strings.Join(names, ", ")
	for _, o := range r.Omitted {
		if what, _, _ := strings.Cut(o.What, "/"); what == stack {
			return nil, usageError{fmt.Errorf("--stack %q: it is left out: %s: %s (known: %s)", stack, o.What, o.Reason, known)}
		}
	}
	if stack == "" {
		return nil, usageError{fmt.Errorf("--stack is missing: say which stack of the experiment is to stand (known: %s)", known)}
	}
	if placement != "" {
		known += "; at " + placement
	}
	return nil, usageError{fmt.Errorf("--stack: %w", &experiment.UnknownError{Kind: "stack", Name: stack, Known: []string{known}})}
}
