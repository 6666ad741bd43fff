package stack

import (
	"errors"
	"slices"
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// A Checker is a kind whose parts cannot be built on every machine.
type Checker interface {
	// Check reads what the machine has for the stack's part of this kind and changes nothing. The error is a
	// linux.UnsupportedError with what is missing and what would help.
	Check(s Stack) error
}

// A Timer is a kind whose parts take long to build.
type Timer interface {
	// BuildTime returns how long the stack's part of this kind takes in a lab of so many hosts, as a guess.
	BuildTime(s Stack, hosts int) time.Duration
}

// A Labeler is a part that reports call otherwise than by its name.
type Labeler interface {
	// Label returns what it is called in labs of so many hosts, "" for its name.
	Label(hosts int) string
}

// A Programmed part may have a program carry packets, which takes CPU time from sources and sinks.
type Programmed interface {
	// Programmed says whether one may with these parameters.
	Programmed(p part.Params) bool
}

// Refuse returns why labs of so many hosts with this stack are left out: the first reason in the order of the kinds. It
// is "" if they are not.
func (s Stack) Refuse(hosts int) string {
	for _, c := range s {
		if k, ok := c.Kind.(Refuser); ok {
			if reason := k.Refuse(s, hosts); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// Enforced says where the parts of the stack stand that protect something: the end of "enforced …", "" without any.
func (s Stack) Enforced() string {
	text := ""
	for _, c := range s {
		if k, ok := c.Kind.(Enforcer); ok {
			if one := k.Enforced(s); one != "" && text != "" {
				text += "; " + one
			} else {
				text += one
			}
		}
	}
	return text
}

// Claims returns what the parts of the stack say about attacks in labs of so many hosts. A lab claims what one of them
// claims.
func (s Stack) Claims(hosts int) (all threat.Claims) {
	for _, c := range s {
		if k, ok := c.Kind.(Claimer); ok {
			all = append(all, k.Claims(s, hosts)...)
		}
	}
	return all
}

// Check asks every kind whether the stack can be built on this machine. It changes nothing.
func (s Stack) Check() error {
	var errs []error
	for _, c := range s {
		if k, ok := c.Kind.(Checker); ok {
			errs = append(errs, k.Check(s))
		}
	}
	return errors.Join(errs...)
}

// BuildTime returns how long the parts of the stack take to build beyond hosts and containers, as a guess.
func (s Stack) BuildTime(hosts int) time.Duration {
	var sum time.Duration
	for _, c := range s {
		if k, ok := c.Kind.(Timer); ok {
			sum += k.BuildTime(s, hosts)
		}
	}
	return sum
}

// Programmed reports whether a program may carry packets of the stack.
func (s Stack) Programmed() bool {
	return slices.ContainsFunc(s, func(c Choice) bool {
		p, ok := c.Part.Value.(Programmed)
		return ok && p.Programmed(c.Params)
	})
}

// Label is what reports call the choice in labs of so many hosts: its id, or the part's label in the place of its name.
func (c Choice) Label(hosts int) string {
	id := c.ID()
	if l, ok := c.Part.Value.(Labeler); ok {
		if label := l.Label(hosts); label != "" {
			return label + id[len(c.Part.Name):]
		}
	}
	return id
}
