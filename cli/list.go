package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func listCommand(std Streams, lib library) *cobra.Command {
	var asJSON bool
	kinds := lib.kinds()
	cmd := &cobra.Command{
		Use:   "list [KIND]",
		Short: "List the parts and their parameters, and the example experiments",
		Long: `Lists what an experiment can consist of: the parts by kind, each with its parameters as NAME=DEFAULT, and the
experiments that come with nettoll. Parameters that several parts of a kind share are explained once, after these
parts. The kinds are ` + strings.Join(kinds, ", ") + `.

With --json it prints one list of objects: kind, name, summary, and, if there are any, implementation and params. Each
parameter has name, default, summary, and values if only these are valid.`,
		Example: `  nettoll list
  nettoll list workload
  nettoll list --json | jq -r '.[] | select(.kind == "network").name'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("nettoll list takes at most one argument, the kind, got %d (known: %s)", len(args),
					strings.Join(kinds, ", "))}
			}
			if len(args) == 1 && !slices.Contains(kinds, args[0]) {
				return usageError{fmt.Errorf("unknown kind %q (known: %s)", args[0], strings.Join(kinds, ", "))}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			list := slices.DeleteFunc(lib.entries(), func(e entry) bool { return len(args) == 1 && e.Kind != args[0] })
			if asJSON {
				return writeJSON(std.Out, list)
			}
			p := &page{width: listWidth}
			writeList(p, list)
			return p.flush(std.Out)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON list")
	return cmd
}

const (
	// listWidth is how long lines may be.
	listWidth = 110
	// mostDefault is how long a parameter with its default may be for its meaning to stand beside it; that of a longer one
	// stands below it.
	mostDefault = 30
	// common is how many entries of a kind have a parameter that is explained once, after all of them.
	common = 3
)

// writeList writes entries for people: below each its parameters, but those that many of its kind have alike once,
// after the last of the kind.
func writeList(p *page, list []entry) {
	type of struct {
		kind  string
		param string // name, default and meaning
	}
	key := func(e entry, q entryParam) of { return of{e.Kind, q.Name + "\x00" + q.Default + "\x00" + q.Summary} }
	had := map[of]int{}
	kinds, left, middle := 0, 0, 0
	for _, e := range list {
		kinds, left = max(kinds, len(e.Kind)), max(left, len(e.Name))
		for _, q := range e.Params {
			had[key(e, q)]++
			if n := len(q.Name) + len(q.Default) + 1; n <= mostDefault {
				middle = max(middle, n)
			}
		}
	}
	explain := func(q entryParam) {
		name, space := q.Name+"="+q.Default, strings.Repeat(" ", kinds+4)
		if len(name) > middle {
			p.wrap(space, name)
			name = ""
		}
		p.wrap(fmt.Sprintf("%s%-*s  ", space, middle, name), q.Summary)
	}
	var shared []entryParam
	for i, e := range list {
		p.wrap(fmt.Sprintf("%-*s  %-*s  ", kinds, e.Kind, left, e.Name), e.Summary)
		var names []string
		for _, q := range e.Params {
			if had[key(e, q)] < common {
				explain(q)
				continue
			}
			names = append(names, q.Name)
			if !slices.ContainsFunc(shared, func(s entryParam) bool { return key(e, s) == key(e, q) }) {
				shared = append(shared, q)
			}
		}
		if len(names) > 0 {
			p.wrap(fmt.Sprintf("%*s  and ", kinds+2, ""), strings.Join(names, ", "))
		}
		if last := i == len(list)-1 || list[i+1].Kind != e.Kind; last && len(shared) > 0 {
			p.text.WriteString("\nparameters of several " + e.Kind + "s, named above after “and”\n")
			for _, q := range shared {
				explain(q)
			}
			if i < len(list)-1 {
				p.text.WriteByte('\n')
			}
			shared = nil
		}
	}
}

// writeJSON writes a value for scripts and for people who look at it.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
