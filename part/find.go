package part

import (
	"fmt"
	"slices"
	"strings"
)

// A Description says what a part is.
type Description struct {
	// Name is the word of experiment files: "bridge".
	Name string
	// Summary is one sentence, without its full stop.
	Summary string
	// Implementation says who does the work: "kernel", "ebpf", "ovs" or "userspace".
	Implementation string
	// Params are its parameters, none for most.
	Params List
	// Near returns names that people ask for and that are no parts, to which it comes nearest; nil for most.
	Near func() []Near
}

// Near says of names that are no parts why not, and what a part has in common with them.
type Near struct {
	Names []string
	Why   string // a sentence without its full stop
}

// Nearest finds a name that is no part among those that a part comes near to. It says that in a sentence; "" if the
// name is not among them.
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

// UnknownError says that a name is not one of those known.
type UnknownError struct {
	Kind  string // "network"
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown %s %q (known: %s)", e.Kind, e.Name, strings.Join(e.Known, ", "))
}

// Find returns the one of that name. The error is an [*UnknownError] that lists all.
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

// Meant suggests the known words that one which is not known may stand for: those that begin with it, as udp-rr does
// with udp, or the nearest, if it is near.
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

// distance is Levenshtein's: how many characters have to be put in, left out or replaced.
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
