package part

import (
	"fmt"
	"slices"
	"strings"
)

// A Description describes a part.
type Description struct {
	// Name is the name of the part in experiment files: "bridge".
	Name string
	// Summary is one sentence, without its full stop.
	Summary string
	// Implementation says who does the work: "kernel", "ebpf", "ovs" or "userspace".
	Implementation string
	// Params are its parameters; most parts have none.
	Params List
	// Near returns names that are not parts but that people ask for, and to which this part is closest. It is nil for
	// most parts.
	Near func() []Near
}

// Near explains why some names are not parts, and what a part has in common with them.
type Near struct {
	Names []string
	Why   string // a sentence without its full stop
}

// Nearest looks for a name that is not a part among the names that a part lists as near. It returns a sentence about
// it, or "" if the name is not listed.
func Nearest(name, part string, near func() []Near) string {
	if near == nil {
		return ""
	}
	for _, n := range near() {
		if slices.Contains(n.Names, strings.ToLower(name)) {
			return fmt.Sprintf("; the nearest is %s: %s", part, n.Why)
		}
	}
	return ""
}

// UnknownError reports a name that is not known, with the known ones.
type UnknownError struct {
	Kind  string // "network"
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown %s %q (known: %s)", e.Kind, e.Name, strings.Join(e.Known, ", "))
}

// Find returns the element with that name. If there is none, the error is an [*UnknownError] that lists all names.
func Find[T any](kind, name string, all []T, nameOf func(T) string) (T, error) {
	known := make([]string, len(all))
	for i, x := range all {
		if known[i] = nameOf(x); known[i] == name {
			return x, nil
		}
	}
	var zero T
	return zero, &UnknownError{Kind: kind, Name: name, Known: known}
}

// Meant suggests known words for an unknown one: those that begin with it, such as udp-rr for udp, or else the nearest
// one if it is near enough.
func Meant(word string, known []string) string {
	var longer []string
	best, least := "", 3
	for _, k := range known {
		if word != "" && strings.HasPrefix(k, word+"-") {
			longer = append(longer, k)
		}
		if d := distance(word, k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	switch n := len(longer); {
	case n == 1:
		best = longer[0]
	case n > 1:
		best = strings.Join(longer[:n-1], ", ") + " or " + longer[n-1]
	case best == "":
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance returns the Levenshtein distance: how many characters have to be inserted, deleted or replaced.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			before, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, before+cost)
		}
	}
	return row[len(b)]
}
