package stack

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// A Checker is a kind with parts that some machines cannot build.
type Checker interface {
	// Check examines whether the machine can build the stack's part of this kind. It changes nothing. The error is a
	// linux.UnsupportedError with what is missing and what would help.
	Check(s Stack) error
}

// An OutsideChecker is a kind with parts that use what the machine has outside of hosts.
type OutsideChecker interface {
	// CheckOutside is like [Checker.Check], and is called outside of hosts.
	CheckOutside(ctx context.Context, s Stack) error
}

// A Timer is a kind whose parts take long to build.
type Timer interface {
	// BuildTime estimates how long the stack's part of this kind takes to build in a lab with these numbers of hosts and
	// containers.
	BuildTime(s Stack, hosts, containers int) time.Duration
}

// A Labeler is a part that has another name in reports.
type Labeler interface {
	// Label returns its name in reports about labs with this number of hosts; "" stands for its own name.
	Label(hosts int) string
}

// A Programmed part may use a program to carry packets. The program takes CPU time from sources and sinks.
type Programmed interface {
	// Programmed reports whether the part may do so with these parameters.
	Programmed(p part.Params) bool
}

// Refuse returns why labs with this stack and number of hosts are left out, or "" if they are not. It is the first
// reason in the order of the kinds.
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

// Enforced describes where the stack enforces protection: the end of "enforced …". It is "" if no part protects
// anything.
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

// CheckOutside asks every kind whether the stack can have what it needs outside of hosts. It changes nothing.
func (s Stack) CheckOutside(ctx context.Context) error {
	var errs []error
	for _, c := range s {
		if k, ok := c.Kind.(OutsideChecker); ok {
			errs = append(errs, k.CheckOutside(ctx, s))
		}
	}
	return errors.Join(errs...)
}

// BuildTime estimates how long the parts of the stack take to build, in addition to hosts and containers.
func (s Stack) BuildTime(hosts, containers int) time.Duration {
	var sum time.Duration
	for _, c := range s {
		if k, ok := c.Kind.(Timer); ok {
			sum += k.BuildTime(s, hosts, containers)
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

// Label returns the name of the choice in reports about labs with this number of hosts: its id, with the part's label
// in place of its name.
func (c Choice) Label(hosts int) string {
	id := c.ID()
	if l, ok := c.Part.Value.(Labeler); ok {
		if label := l.Label(hosts); label != "" {
			return label + id[len(c.Part.Name):]
		}
	}
	return id
}
