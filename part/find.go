package part

import (
	"fmt"
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

// Meant suggests the known word that is nearest to one that is not, if it is near.
func Meant(word string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(word, k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	if best == "" {
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
