package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// entry is a line of `list`.
type entry struct{ kind, name, summary string }

func (a *app) entries() []entry {
	var all []entry
	for _, n := range a.catalogue.Networks {
		d := n.Describe()
		all = append(all, entry{"network", d.Name, d.Summary})
	}
	for _, r := range a.catalogue.Runtimes {
		d := r.Describe()
		all = append(all, entry{"runtime", d.Name, d.Summary})
	}
	for _, w := range a.catalogue.Workloads {
		d := w.Describe()
		all = append(all, entry{"workload", d.Name, d.Summary})
		for _, p := range d.Params {
			all = append(all, entry{"", "  " + p.Name + "=" + p.Default, p.Summary})
		}
	}
	return all
}

func (a *app) listCommand() *cobra.Command {
	kinds := []string{"network", "runtime", "workload"}
	return &cobra.Command{
		Use:   "list [KIND]",
		Short: "List the parts: networks, runtimes, workloads and their parameters",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("nettoll list takes at most one argument, got %d", len(args))}
			}
			if len(args) == 1 && !slices.Contains(kinds, args[0]) {
				return usageError{fmt.Errorf("unknown kind %q (known: %s)", args[0], strings.Join(kinds, ", "))}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
			kind := ""
			for _, e := range a.entries() {
				if e.kind != "" {
					kind = e.kind
				}
				if len(args) == 1 && kind != args[0] {
					continue
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", e.kind, e.name, e.summary)
			}
			return w.Flush()
		},
	}
}
