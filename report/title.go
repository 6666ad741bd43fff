package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// unnamed returns the names of experiments without a name of their own: the default experiment, and a file without a
// name.
func unnamed() []string { return []string{"", "default", "experiment"} }

// loopback is the label of the stack without a container network on one host.
const loopback = "loopback"

// mostTitled is the number of stacks that a title names at most.
const mostTitled = 4

// Title returns the title of a run: the name of its experiment. If it has none, the title names what was measured:
// "bridge, nat and macvlan over loopback and across hosts".
func Title(run measure.Run) string {
	if !slices.Contains(unnamed(), run.Name) {
		return Printable(run.Name)
	}
	cells, bases, where := measured(run)
	stacks := make([]string, len(cells))
	for i, c := range cells {
		stacks[i] = ownName(c)
	}
	if len(stacks) == 0 {
		return cmp.Or(Printable(run.Name), "a run")
	}
	if n := len(stacks); n > mostTitled {
		stacks = append(stacks[:mostTitled-1:mostTitled-1], fmt.Sprintf("%d more", n-mostTitled+1))
	}
	title := inWords(stacks)
	switch here := slices.Contains(where, "same-host"); {
	case here && len(bases) == 0:
		title += " over " + loopback
	case len(bases) > 0:
		title += " over " + inWords(bases)
		if here {
			title += " on one host"
		}
	}
	if slices.Contains(where, "cross-host") {
		if slices.Contains(where, "same-host") {
			title += " and"
		}
		title += " across hosts"
	}
	return title
}

// ownName returns the name of a cell's stack, whatever the baseline is.
func ownName(c *measure.Cell) string { return Printable(cmp.Or(c.Stack, StackName(c))) }

// measured returns a cell of each stack that a run compares, the baselines other than no network at all, and the
// placements.
func measured(run measure.Run) (stacks []*measure.Cell, bases, where []string) {
	add := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	none := "" // the name of the stack without a container network
	for i := range run.Cells {
		if c := &run.Cells[i]; c.Label == loopback {
			none = c.Stack
		}
	}
	for i := range run.Cells {
		c := &run.Cells[i]
		if c.Twin || c.Probe != "" {
			continue
		}
		add(&where, c.Placement)
		name := ownName(c)
		if c.Baseline != "" {
			if !slices.ContainsFunc(stacks, func(o *measure.Cell) bool { return ownName(o) == name }) {
				stacks = append(stacks, c)
			}
		} else if name != none && c.Label != loopback {
			add(&bases, name)
		}
	}
	return stacks, bases, where
}

// bareOwnName returns the name of a cell's stack, whatever the baseline is, without the parameters of its parts. A part
// that has another name in reports has its own.
func bareOwnName(c *measure.Cell) string {
	var name strings.Builder
	for _, p := range c.Parts {
		switch {
		case strings.HasSuffix(p.Label, p.Name):
			name.WriteString(p.Label)
		case p.Label != "":
			name.WriteString("+" + p.Name)
		}
	}
	return cmp.Or(name.String(), ownName(c))
}

// inWords joins names as a sentence does.
func inWords(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// DirectoryName returns the name of a run's directory, without the time. It has the words of [Title] in characters that
// every shell takes unquoted.
func DirectoryName(run measure.Run) string {
	if !slices.Contains(unnamed(), run.Name) {
		return run.Name
	}
	const most = 40
	name := ""
	stacks, _, _ := measured(run)
	for _, c := range stacks {
		word := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
				return r
			}
			return '-'
		}, bareOwnName(c))
		word = strings.Trim(word, "-.")
		if word == "" || strings.Contains("-"+name+"-", "-"+word+"-") {
			continue
		}
		if len(name)+len(word) >= most {
			break
		}
		name = strings.TrimPrefix(name+"-"+word, "-")
	}
	return cmp.Or(name, run.Name, "run")
}
