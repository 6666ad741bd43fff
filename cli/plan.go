package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// planned is what `plan --json` prints.
type planned struct {
	Name       string                `json:"name"`
	Cells      []plannedCell         `json:"cells"`
	Forecast   experiment.Forecast   `json:"forecast"`
	Assumption string                `json:"assumption"` // where the forecast's spread comes from
	Notes      []string              `json:"notes,omitempty"`
	Labs       []control.LabPlan     `json:"labs,omitempty"` // with --hosts
	Experiment experiment.Experiment `json:"experiment"`
}

type plannedCell struct {
	measure.Cell
	Trial float64 `json:"trial"` // s
}

func planCommand(std Streams, from experiments, rights *privileges) *cobra.Command {
	f := &experimentFlags{}
	var hosts, asJSON bool
	var pilot string
	cmd := &cobra.Command{
		Use:   "plan [EXPERIMENT.yaml | suite:NAME]",
		Short: "Show what run would do: cells, blocks, expected precision, time, memory",
		Long: `Reads an experiment as run does and shows what it would measure, what it would leave out and why, how long
it would take and how precise it would be. It needs no privilege, builds nothing and touches nothing.

The expected precision depends on how much ratios vary between generations. Without a pilot this is a default; with
--pilot DIR it is taken from an earlier run.`,
		Example: `  nettoll plan my.yaml
  nettoll plan my.yaml --hosts                  with every step on every host
  nettoll plan my.yaml --pilot nettoll-my-…     with the spread of an earlier run
  nettoll plan --json | jq .forecast`,
		Args: oneExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			rights.release() // nothing is to be undone: an interrupt ends it at once
			resolved, err := from.resolve(cmd, args, f)
			if err != nil {
				return err
			}
			p := planned{
				Name: resolved.Experiment.Name, Notes: resolved.Notes, Experiment: resolved.Experiment,
				Assumption: fmt.Sprintf("ratios spread by %.0f %% between generations (the default; --pilot DIR takes it from a "+
					"run)", 100*experiment.DefaultSpread),
			}
			spread := experiment.DefaultSpread
			if pilot != "" {
				if spread, err = piloted(pilot); err != nil {
					return err
				}
				p.Assumption = fmt.Sprintf("ratios spread by up to %.1f %% between generations, as in %s", 100*spread, pilot)
			}
			p.Forecast = resolved.Forecast(spread)
			for _, c := range resolved.Cells {
				p.Cells = append(p.Cells, plannedCell{c.Cell, c.Trial.Seconds()})
			}
			if hosts {
				cpus, err := thread.CPUs()
				if err != nil {
					return err
				}
				if p.Labs, err = control.Plans(resolved, cpus); err != nil {
					return err
				}
			}
			if asJSON {
				e := json.NewEncoder(std.Out)
				e.SetIndent("", "  ")
				err = e.Encode(p)
			} else {
				err = p.print(std.Out, resolved)
			}
			if err != nil {
				return err
			}
			return fits(resolved)
		},
	}
	f.register(cmd.Flags(), from.library)
	cmd.Flags().BoolVar(&hosts, "hosts", false, "also print the plan of every host")
	cmd.Flags().StringVar(&pilot, "pilot", "", "directory of a run; expect its spread")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

// fits returns an error if the machine is too small for the run.
func fits(r *experiment.Resolved) error {
	l := procfs.ReadLimits()
	limits := experiment.Limits{Neighbours: l.Neighbours, Conntrack: l.Conntrack, Memory: l.Memory}
	if all := procfs.Ceilings(os.DirFS("/")); len(all) > 0 {
		limits.Tasks, limits.TasksLimit, limits.TasksHelp = all[0].Left(), all[0].String(), all[0].Help
	}
	if err := r.Check(limits); err != nil {
		return usageError{err}
	}
	return nil
}

// ownThreads is how many threads this process may come to need: one that it cannot start is fatal to a Go program.
const ownThreads = 16

// startable returns an error where this process, of which there is a second one in a user namespace, may not start its
// threads.
func startable() error {
	if all := procfs.Ceilings(os.DirFS("/")); len(all) > 0 && all[0].Left() < ownThreads {
		return fmt.Errorf("too few threads are allowed, nettoll needs about %d: %s (hint: %s)", ownThreads,
			all[0], all[0].Help)
	}
	return nil
}

// piloted returns the largest spread of a primary metric in a run.
func piloted(dir string) (float64, error) {
	data, _, err := report.Load(dir)
	if err != nil {
		return 0, err
	}
	spread := 0.0
	for _, r := range data.Analysis.Rows {
		if r.HasRatio && r.Metric == r.Cell.Primary && r.Cell.Probe == "" {
			spread = max(spread, r.Estimate.Spread)
		}
	}
	if spread == 0 {
		return 0, fmt.Errorf("pilot %q has no ratios with a spread", dir)
	}
	return spread, nil
}

// print writes the plan for people.
func (p planned) print(out io.Writer, r *experiment.Resolved) error {
	f := p.Forecast
	e := r.Experiment
	fmt.Fprintf(out, "experiment %s: %s in %s, with %s on %s\n", p.Name, several(len(r.Cells), "cell"),
		several(f.Labs, "lab"),
		several(f.Containers, "container"), several(f.Hosts, "host"))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	load := ""
	for _, g := range r.Groups() {
		first := g[0]
		name, where := groupNames(first)
		if name != load {
			fmt.Fprintf(w, "\n%s\n", name)
			load = name
		}
		var stacks []string
		for _, c := range g {
			stack := c.Stack
			if c.Twin {
				stack += " (twin)"
			}
			stacks = append(stacks, stack)
		}
		fmt.Fprintf(w, "  %s\t%v\t%s\n", where, first.Trial.Round(time.Millisecond), strings.Join(stacks, ", "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	printFilters(out, r)
	if len(r.Omitted) > 0 {
		fmt.Fprint(out, "\nleft out\n")
		var reasons []string
		what := map[string][]string{}
		for _, o := range r.Omitted {
			if what[o.Reason] == nil {
				reasons = append(reasons, o.Reason)
			}
			what[o.Reason] = append(what[o.Reason], o.What)
		}
		for _, reason := range reasons {
			fmt.Fprintf(out, "  %s: %s\n", strings.Join(what[reason], ", "), reason)
		}
	}
	if u := e.Underlay.String(); u != "" {
		fmt.Fprintf(out, "\nUnderlay of cross-host labs: %s\n", u)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(out, "\n! %s\n", n)
	}
	probed := ""
	if f.Probed > 0 {
		probed = fmt.Sprintf(" (%v of it for the cells with a probe)", round(f.Probed))
	}
	fmt.Fprintf(out, "\nA block, one trial of each cell, takes %v%s: %s in %s take %v", round(f.Block), probed,
		several(f.Blocks, "block"), several(f.Generations, "generation"), round(f.Measuring))
	if f.Measuring > e.Design.Time*11/10 {
		fmt.Fprintf(out, " (more than the requested %v: the minimum is %d generations of one block)", e.Design.Time,
			e.Design.Generations)
	}
	fmt.Fprintf(out, ".\nRebuilding everything %d times takes about %v more; memory about %d MB.\n", f.Generations,
		round(f.Building), f.Memory/1e6)
	fmt.Fprintf(out, "Expect 95 %% intervals of ±%s if %s.\n", percent(f.HalfWidth), p.Assumption)
	switch {
	case f.Enough == 0:
		fmt.Fprintf(out, "The requested precision, ±%s, would take more than a day.\n", percent(e.Design.Precision))
	case f.Enough > f.Measuring:
		fmt.Fprintf(out, "The requested precision, ±%s, would take about %v of measuring: --time %v.\n",
			percent(e.Design.Precision), round(f.Enough), f.Enough.Round(10*time.Second))
	default:
		fmt.Fprintf(out, "The requested precision, ±%s, is expected after about %v.\n", percent(e.Design.Precision),
			round(f.Enough))
	}
	for _, l := range p.Labs {
		fmt.Fprintf(out, "\nlab %s\n", l.Lab)
		for i, h := range l.Hosts {
			fmt.Fprintf(out, " host%d\n%s", i+1, indented(h.String()))
		}
		if len(l.Hosts) > 1 {
			fmt.Fprintf(out, " underlay\n%s", indented(l.Underlay.String()))
		}
	}
	return nil
}

// printFilters says where the filters of an experiment stand, and which stacks have them there.
func printFilters(out io.Writer, r *experiment.Resolved) {
	var all []string
	stacks := map[string][]string{}
	for _, l := range r.Labs {
		where, stack := l.Stack.Enforced(), l.Named
		if where == "" || slices.Contains(stacks[where], stack) {
			continue
		}
		if stacks[where] == nil {
			all = append(all, where)
		}
		stacks[where] = append(stacks[where], stack)
	}
	if len(all) == 0 {
		return
	}
	fmt.Fprint(out, "\nfilters\n")
	for _, where := range all {
		fmt.Fprintf(out, "  %s: enforced %s\n", strings.Join(stacks[where], ", "), where)
	}
}

// groupNames splits what a group's cells are called into the workload and where it runs.
func groupNames(c experiment.Cell) (load, where string) {
	pairs := several(c.Pairs, "pair")
	if c.Mix != nil {
		pairs = fmt.Sprintf("%d of %s for %s", c.Pairs, several(c.LabPairs, "pair"), c.Member)
	}
	list := []string{strings.ReplaceAll(c.Placement, "-", " "), pairs}
	for i, usual := range []string{experiment.Families()[0], experiment.Affinities()[0]} {
		if x := []string{c.Family, c.Affinity}[i]; x != usual {
			list = append(list, x)
		}
	}
	if c.Probe != "" {
		list = append(list, "probe "+c.Probe)
	}
	return c.Load, strings.Join(list, ", ")
}

func indented(text string) string {
	lines := slices.Collect(strings.Lines(text))
	return " " + strings.Join(lines, " ")
}

func percent(x float64) string { return fmt.Sprintf("%.3g %%", 100*x) }

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
