package watch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nettoll/nettoll/internal/linux/netns"
)

// An Audit is what was found in a namespace since the last one.
type Audit struct {
	Changes []Change
	// New are sockets that hear whoever sends to them, which were not there. It is for the caller to know whose they are.
	New []Socket
	// Lost says that more happened than the monitors could keep: what came and went is not all known.
	Lost bool
}

// How much a [Namespace.Audit] compares. Each one includes those above it.
const (
	// Reported is what monitors report, and links.
	Reported = iota
	// Usual adds what has no monitor: variables, programs, older tables, sets, and sockets of one kind, in turn.
	Usual
	// All adds sockets of all kinds, next hops, and what tc and IPsec have set without an event.
	All
)

// Audit reports what has changed since the last audit, or since [Watch.Open]. It reports each change once.
func (n *Namespace) Audit(much int) (Audit, error) {
	var a Audit
	var err error
	n.audits++
	if a.Lost, err = n.happened(); err != nil {
		return a, err
	}
	sum, err := n.digest()
	if err != nil {
		return a, err
	}
	if sum != n.sum {
		n.links.dirty, n.sum = true, sum
	}
	// what goes with a link has no event
	silent := much == All || n.links.dirty
	for _, s := range n.sections() {
		if !s.dirty && !a.Lost && !(silent && s.silent) {
			continue
		}
		list, err := n.compare(s)
		if err != nil {
			return a, err
		}
		a.Changes = append(a.Changes, list...)
	}
	list, err := n.compareLogged()
	if err != nil {
		return a, err
	}
	list = slices.DeleteFunc(list, func(c Change) bool { // a listing says what it was, too
		return slices.ContainsFunc(a.Changes, func(known Change) bool { return known.What == c.What })
	})
	a.Changes = append(a.Changes, list...)
	if much == Reported && n.varied == nil {
		return a, nil
	}
	if list, err = n.compareNumbers(); err != nil {
		return a, err
	}
	back := n.looked()
	for i := range list {
		list[i].Back = back
	}
	a.Changes = append(a.Changes, list...)
	a.New, err = n.heard(much == All)
	return a, err
}

// compare lists a section and says what has changed.
func (n *Namespace) compare(s *section) ([]Change, error) {
	is, err := n.list(s)
	if err != nil {
		return nil, err
	}
	list := diff(s.base, is, s.may)
	list = append(list, s.trail.passed(s.base, list, s.may)...)
	if s == &n.near { // what was forgotten is to be the same when it is learned again
		for t, was := range s.base {
			if is[t] == "" && s.may(was, "") {
				is[t] = was
			}
		}
	}
	list = expand(list)
	for i, c := range list {
		list[i].Back = 1
		if _, told := n.log.value[c.What]; s.silent && !told && !s.trail.has(c.What) {
			list[i].Back = n.audits - s.listed
		}
	}
	s.base, s.trail, s.dirty, s.listed = is, nil, false, n.audits
	return list, nil
}

// compareLogged says what has changed of what has a monitor that keeps no list.
func (n *Namespace) compareLogged() ([]Change, error) {
	list := n.log.changes()
	for i := range list {
		list[i].Back = 1
	}
	n.log = log{}
	if n.filter == nil || n.generation == 0 {
		return list, nil
	}
	g, err := n.filter.generation()
	if err != nil {
		return nil, err
	}
	if g != n.generation && len(list) == 0 { // whoever says what it was has missed it
		list = append(list, Change{
			What: "generation of nftables", Before: fmt.Sprint(n.generation), After: fmt.Sprint(g), Back: 1,
		})
	}
	n.generation = g
	return list, nil
}

// looked notes that the numbers are known now, and returns how many audits ago they were.
func (n *Namespace) looked() (back int) {
	back = n.audits
	if len(n.counted) > 0 {
		back -= n.counted[0]
	}
	n.counted = append(n.counted, n.audits)
	rounds := (len(n.names) + programsAtOnce - 1) / programsAtOnce
	n.counted = n.counted[max(0, len(n.counted)-max(1, rounds)):]
	return back
}

// compareNumbers says what has changed of what has no monitor.
func (n *Namespace) compareNumbers() ([]Change, error) {
	is, err := n.count()
	if err != nil {
		return nil, err
	}
	list := diff(n.numbers, is, nothing)
	n.numbers = is
	some, err := n.compareVariables()
	return append(list, some...), err
}

// compareVariables says which variables have changed.
func (n *Namespace) compareVariables() (list []Change, err error) {
	read := func(files bool) error {
		for i := range n.variables {
			v := &n.variables[i]
			if (v.file != nil) != files {
				continue
			}
			was := *v
			changed, err := v.read()
			if err != nil {
				return err
			}
			if changed {
				list = append(list, Change{What: v.key, Before: was.value(), After: v.value()})
			}
		}
		return nil
	}
	err = read(true)
	if slices.ContainsFunc(n.variables, func(v variable) bool { return v.file == nil }) {
		err = errors.Join(err, netns.Do(n.fd, func() error { return read(false) }))
	}
	list = append(list, n.varied.passed(n.before, list, nothing)...)
	n.varied, n.before = nil, nil
	return list, err
}
