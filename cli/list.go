package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/report/export"
)

func listCommand(std Streams, lib library) *cobra.Command {
	var f outputFlags
	kinds := lib.kinds()
	cmd := &cobra.Command{
		Use:   "list [KIND | NAME]",
		Short: "List the parts and their parameters, and the example experiments",
		Long: `Lists what an experiment can consist of: the parts by kind, each with its parameters as NAME=DEFAULT, and the
experiments that come with nettoll. Parameters that several parts of a kind share are explained once, after these
parts. With the name of a part it lists that part. The kinds are:
  ` + strings.Join(kinds[:len(kinds)/2], ", ") + `,
  ` + strings.Join(kinds[len(kinds)/2:], ", ") + `
Those that begin with cluster- are of stacks on a Kubernetes cluster (hosts: {kind: kubernetes}).

With an attack it also lists its control: the lab that shows that the attack works.

With --output json it prints one list of objects: kind, name, summary, and, if there are any, implementation, control
and params. Each parameter has name, default, summary, and values if only these are valid. With --output jsonl each
object is a line. With --output csv each parameter is a row, and so is a part without parameters.`,
		Example: `  nettoll list
  nettoll list workload
  nettoll list tcp-stream
  nettoll list --output json | jq -r '.[] | select(.kind == "network").name'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("nettoll list takes at most one argument, a kind or a part, got %d (known: %s)",
					len(args), strings.Join(kinds, ", "))}
			}
			if len(args) == 1 && len(lib.about(args[0])) == 0 {
				return usageError{fmt.Errorf("unknown kind or part %q (known kinds: %s; nettoll list shows all parts)%s", args[0],
					strings.Join(kinds, ", "), part.Meant(args[0], slices.Concat(kinds, lib.names())))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := f.choose(cmd)
			if err != nil {
				return err
			}
			list := lib.entries()
			if len(args) == 1 {
				list = lib.about(args[0])
			}
			switch format {
			case "json":
				return writeJSON(std.Out, list)
			case "jsonl", "csv":
				return entriesSheet(list).write(std.Out, format)
			}
			p := &page{width: listWidth}
			writeList(p, list)
			return p.flush(std.Out)
		},
	}
	f.register(cmd)
	return cmd
}

const (
	// listWidth is the largest length of a line.
	listWidth = 110
	// mostDefault is the largest length of NAME=DEFAULT with which its meaning stands on the same line. Otherwise it
	// stands below.
	mostDefault = 30
	// common is the number of entries of a kind that must share a parameter for it to be explained once, after all of
	// them.
	common = 3
)

// writeList writes entries for people, each with its parameters below it. Parameters that many entries of a kind share
// are explained once, after the last of the kind.
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
		if e.Control != "" {
			p.wrap(fmt.Sprintf("%*s  ", kinds+left+2, ""), "control: "+e.Control)
		}
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
			p.text.WriteString("\nparameters that several " + e.Kind + "s share, listed above after “and”\n")
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

// entriesSheet has a line for each entry and a row for each of its parameters.
func entriesSheet(list []entry) sheet {
	s := sheet{columns: []string{
		"kind", "name", "summary", "implementation", "param", "default", "values", "param_summary", "control",
	}}
	for _, e := range list {
		s.objects = append(s.objects, e)
		of := []string{e.Kind, e.Name, e.Summary, e.Implementation}
		for _, q := range e.Params {
			s.rows = append(s.rows, append(slices.Clone(of), q.Name, q.Default, strings.Join(q.Values, " "), q.Summary, ""))
		}
		if len(e.Params) == 0 {
			s.rows = append(s.rows, append(of, "", "", "", "", e.Control))
		}
	}
	return s
}

// writeJSON writes a value as indented JSON.
func writeJSON(w io.Writer, v any) error {
	e := export.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
