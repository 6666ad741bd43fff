package watch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Change is one thing of a namespace that is not as it was, or was not for a while.
type Change struct {
	What string `json:"what"` // "route to 10.2.0.0/16, table main"
	// Before and After are what it was and what it is; "" where it was or is not there.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Between is what it was meanwhile, if it is as before again; "" where it was not there.
	Between string `json:"between,omitempty"`
	// Passed says that it is as before again.
	Passed bool `json:"passed,omitempty"`
	// Back is how many audits before the one that has found it the last was that looked at it: 1 for what monitors report.
	Back int `json:"-"`
}

// String says the change as a person would.
func (c Change) String() string {
	switch {
	case c.Passed && c.Before == "":
		return fmt.Sprintf("%s: added (%s) and removed again", c.What, c.Between)
	case c.Passed && c.Between == "":
		return fmt.Sprintf("%s: removed (it was %s) and added again", c.What, c.Before)
	case c.Passed:
		return fmt.Sprintf("%s: %s → %s → %s", c.What, c.Before, c.Between, c.Before)
	case c.Before == "":
		return fmt.Sprintf("%s: added (%s)", c.What, c.After)
	case c.After == "":
		return fmt.Sprintf("%s: removed (it was %s)", c.What, c.Before)
	}
	return fmt.Sprintf("%s: %s → %s", c.What, c.Before, c.After)
}

// A thing is what a state has a value for.
type thing struct {
	of   string // what it belongs to and goes with: "link eth0"; "" for nothing
	what string // "MTU of eth0"; the same as of for that itself
}

// A state is what there is of one kind, in words.
type state map[thing]string

// put adds a value. Of several that have the same name each counts.
func (s state) put(t thing, value string) {
	if other, known := s[t]; known {
		value = other + " and " + value
	}
	s[t] = value
}

// A tolerance says whether a thing may go from one value to another by itself. "" is not there.
type tolerance func(before, after string) bool

// nothing is what most things may do by themselves.
func nothing(_, _ string) bool { return false }

// learned is for what the kernel learns and forgets: entries that are not permanent may come and go, but do not become
// another.
func learned(before, after string) bool {
	permanent := func(value string) bool { return strings.HasSuffix(value, permanently) }
	return before == "" && !permanent(after) || after == "" && !permanent(before)
}

// permanently ends the value of an entry that nobody has learned.
const permanently = ", permanent"

// diff says what of a state has become another. Of what is gone or new as a whole its parts are not listed.
func diff(before, after state, may tolerance) []Change {
	var list []Change
	whole := map[string]bool{} // of things that are gone or new
	for t := range union(before, after) {
		if t.of == t.what && (before[t] == "") != (after[t] == "") {
			whole[t.of] = true
		}
	}
	for t := range union(before, after) {
		was, is := before[t], after[t]
		if was == is || may(was, is) || t.of != "" && t.of != t.what && whole[t.of] {
			continue
		}
		list = append(list, Change{What: t.what, Before: was, After: is})
	}
	slices.SortFunc(list, func(a, b Change) int { return cmp.Compare(a.What, b.What) })
	return list
}

func union(a, b state) state {
	all := maps.Clone(a)
	if all == nil {
		all = state{}
	}
	maps.Copy(all, b)
	return all
}

// A trail is what things have become one after another since the last audit.
type trail map[thing][]string

// has says that something has become another.
func (l trail) has(what string) bool {
	for t := range l {
		if t.what == what {
			return true
		}
	}
	return false
}

// passed lists the things that were something else meanwhile and are as before again, but those that changed.
func (l trail) passed(before state, changed []Change, may tolerance) []Change {
	var list []Change
	for t, values := range l {
		if slices.ContainsFunc(changed, func(c Change) bool { return c.What == t.what || c.What == t.of }) {
			continue
		}
		was := before[t]
		if _, whole := l[thing{t.of, t.of}]; whole && t.of != t.what {
			continue // part of what has come and gone as a whole
		}
		i := slices.IndexFunc(values, func(v string) bool { return v != was && !may(was, v) })
		if i >= 0 {
			list = append(list, Change{What: t.what, Before: was, Between: values[i], Passed: true})
		}
	}
	slices.SortFunc(list, func(a, b Change) int { return cmp.Compare(a.What, b.What) })
	return list
}
