package cli

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/report"
)

// planned is what `plan --output json` prints.
type planned struct {
	Name       string                `json:"name"`
	Cells      []plannedCell         `json:"cells"`
	Forecast   experiment.Forecast   `json:"forecast"`
	Assumption string                `json:"assumption"` // where the forecast's spread comes from
	Spans      []plannedSpan         `json:"spans,omitempty"`
	Notes      []string              `json:"notes,omitempty"`
	Paper      []plannedItem         `json:"paper,omitempty"` // figures, tables and claims of a suite
	Open       []plannedOpen         `json:"open,omitempty"`  // with --pilot
	Between    []plannedLayers       `json:"between,omitempty"`
	Labs       []control.LabPlan     `json:"labs,omitempty"` // with --hosts
	Experiment experiment.Experiment `json:"experiment"`

	remembered string // where the memory of the spans comes from
	pilot      string
}

type plannedCell struct {
	measure.Cell
	Trial float64 `json:"trial"` // s
}

// plannedLayers are the layers between the hosts of some stacks, from the underlay up to the containers.
type plannedLayers struct {
	Stacks []string        `json:"stacks"`
	Layers []network.Layer `json:"layers"`
}

// layersOf lists the layers between the hosts of stacks that have a tunnel or an encryption, all alike ones once.
func layersOf(r *experiment.Resolved) ([]plannedLayers, error) {
	var list []plannedLayers
	for _, l := range r.Labs {
		layers, err := r.Between(l)
		if err != nil {
			return nil, err
		}
		if len(layers) <= 2 { // the underlay and the containers
			continue
		}
		at := slices.IndexFunc(list, func(p plannedLayers) bool { return reflect.DeepEqual(p.Layers, layers) })
		if at < 0 {
			at, list = len(list), append(list, plannedLayers{Layers: layers})
		}
		if !slices.Contains(list[at].Stacks, l.Named) {
			list[at].Stacks = append(list[at].Stacks, l.Named)
		}
	}
	return list, nil
}

// printLayers prints the layers between hosts, those of containers first.
func printLayers(out io.Writer, list []plannedLayers) error {
	if len(list) == 0 {
		return nil
	}
	fmt.Fprint(out, "\nbetween hosts\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, p := range list {
		fmt.Fprintf(w, "  %s\n", strings.Join(p.Stacks, ", "))
		for _, l := range slices.Backward(p.Layers) {
			fmt.Fprintf(w, "    %s\t%s\n", l.Name, l)
		}
	}
	return w.Flush()
}

func planCommand(std Streams, from experiments, rights *privileges) *cobra.Command {
	f := &experimentFlags{}
	var hosts bool
	var out outputFlags
	var pilot string
	cmd := &cobra.Command{
		Use:   "plan [EXPERIMENT.yaml | suite:NAME]",
		Short: "Show what run would do: cells, blocks, expected precision, time, memory",
		Long: `Reads an experiment as run does and shows what it would measure, what it would leave out and why, how long
it would take and how precise it would be. It needs no privilege, builds nothing and touches nothing.

The expected precision depends on how much ratios vary between generations. Without a pilot this is a default; with
--pilot DIR it is taken from an earlier run, and so is how long the machine's noise is remembered: the cells of a group
that takes longer share less of it with their baseline. With a pilot it also shows what is likely to stay open: the
comparisons, or claims of a suite, that this noise leaves undecided when the time is up.

With --output json it prints one object: name, cells, forecast, assumption, spans, notes, open (with --pilot),
between (the layers between hosts), labs (with --hosts), experiment.
With --output jsonl each cell and each lab is a line, after one with the rest. With --output csv each cell is a row.`,
		Example: `  nettoll plan my.yaml
  nettoll plan my.yaml --hosts                  with every step on every host
  nettoll plan suite:ji2019                     with what each figure and claim of the paper takes
  nettoll plan my.yaml --pilot nettoll-my-…     with the spread of an earlier run
  nettoll plan --output json | jq .forecast`,
		Args: oneExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := out.choose(cmd)
			if err != nil {
				return err
			}
			rights.release() // plan has nothing to undo: an interrupt ends it at once
			from.anywhere = true
			resolved, err := from.resolve(cmd, args, f)
			if err != nil {
				return err
			}
			p := planned{
				Name: resolved.Experiment.Name, Notes: resolved.Notes, Experiment: resolved.Experiment,
				Assumption: fmt.Sprintf("ratios spread by %.0f %% between generations (the default; --pilot DIR takes it from a "+
					"run)", 100*experiment.DefaultSpread),
			}
			spread, memories := experiment.DefaultSpread, []measure.Memory(nil)
			var data *report.Data
			if pilot != "" {
				if data, spread, err = piloted(pilot); err != nil {
					return err
				}
				memories = data.Analysis.Memories()
				p.Assumption = fmt.Sprintf("ratios spread by up to %.1f %% between generations, as in %s", 100*spread, pilot)
			}
			p.Spans, p.remembered = plannedSpans(resolved.Spans(), pilot, memories)
			p.Forecast, p.Paper = resolved.Forecast(spread), from.plannedItems(resolved)
			if p.pilot = pilot; data != nil {
				p.Open = from.plannedOpen(resolved, p.Forecast, data)
			}
			if tried := from.tried(resolved); tried != "" {
				p.Notes = append(p.Notes, tried)
			}
			for _, c := range resolved.Cells {
				p.Cells = append(p.Cells, plannedCell{c.Cell, c.Trial.Seconds()})
			}
			if p.Between, err = layersOf(resolved); err != nil {
				return err
			}
			if hosts {
				if err := onlyHere(resolved.Experiment, "--hosts"); err != nil {
					return err
				}
				cpus, err := thread.CPUs()
				if err != nil {
					return err
				}
				if p.Labs, err = control.Plans(resolved, cpus); err != nil {
					return err
				}
			}
			switch format {
			case "json":
				err = writeJSON(std.Out, p)
			case "jsonl", "csv":
				err = p.sheet().write(std.Out, format)
			default:
				err = p.print(std.Out, resolved)
			}
			if err != nil {
				return err
			}
			return fits(resolved)
		},
	}
	f.register(cmd.Flags(), from.library)
	f.registerPaper(cmd.Flags())
	cmd.Flags().BoolVar(&hosts, "hosts", false, "also print the plan of every host")
	cmd.Flags().StringVar(&pilot, "pilot", "", "directory of a run: forecast with its spread and its noise")
	out.register(cmd)
	return cmd
}

// sheet has a line for each cell and each lab, and a row for each cell.
func (p planned) sheet() sheet {
	s := sheet{columns: []string{
		"cell", "baseline", "twin", "stack", "placement", "pairs", "family", "affinity", "workload", "probe", "primary",
		"trial", "idle",
	}}
	whole := p
	whole.Cells, whole.Labs = nil, nil
	s.objects = append(s.objects, line{"plan", struct {
		planned
		Cells int `json:"cells"` // number of cells
	}{whole, len(p.Cells)}})
	for _, c := range p.Cells {
		s.objects = append(s.objects, line{"cell", c})
		s.rows = append(s.rows, []string{
			c.ID, c.Baseline, strconv.FormatBool(c.Twin), c.Stack, c.Placement, strconv.Itoa(c.Pairs), c.Family, c.Affinity,
			c.Workload, c.Probe, c.Primary, strconv.FormatFloat(c.Trial, 'g', -1, 64), c.Idle,
		})
	}
	for _, l := range p.Labs {
		s.objects = append(s.objects, line{"lab", l})
	}
	return s
}

// fits returns an error if the machine is too small for the run.
func fits(r *experiment.Resolved) error {
	if r.Experiment.Clusters != nil {
		return nil // nothing of it is on this machine
	}
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

// ownThreads is how many threads a command may need in this process. If a Go program cannot start a thread, it crashes.
const ownThreads = 16

// fewThreads is how many more threads a command may need that starts no other process. The Go runtime has three to five
// by then.
const fewThreads = 4

// threads returns an error if this process may not start so many more threads. In a user namespace there are two such
// processes.
func threads(more int) error {
	if all := procfs.Ceilings(os.DirFS("/")); len(all) > 0 && all[0].Left() < more {
		return fmt.Errorf("too few threads are allowed, nettoll needs about %d: %s (hint: %s)", ownThreads,
			all[0], all[0].Help)
	}
	return nil
}

// ownMemory returns the smallest memory limits with which this process completes a short run. 80 MB of data were too
// few. The Go runtime reserves address space: with 758 MB it did not start, with 809 and 829 MB not in 13 and 12 of 200
// tries, with 850 MB in all (Go 1.26, before this code runs).
func ownMemory() []memoryLimit {
	return []memoryLimit{
		{"Max data size", "ulimit -d (RLIMIT_DATA)", 96 << 20},
		{"Max address space", "ulimit -v (RLIMIT_AS)", 896 << 20},
	}
}

type memoryLimit struct {
	name  string // as in /proc/self/limits
	limit string
	least int64 // bytes
}

// startable returns an error if a limit leaves too few threads or too little memory for any command.
func startable() error {
	root := os.DirFS("/")
	for _, l := range ownMemory() {
		if n, limited := procfs.Rlimit(root, l.name); limited && n < l.least {
			return fmt.Errorf("too little memory is allowed, nettoll needs about %d MiB: %s is %d MiB (hint: raise it)",
				l.least>>20, l.limit, n>>20)
		}
	}
	if procfs.Narrow(root, 2*ownThreads) {
		return threads(fewThreads)
	}
	return nil
}

// piloted returns a run, and the largest spread of a primary metric in it.
func piloted(dir string) (*report.Data, float64, error) {
	data, _, err := report.Load(dir)
	if err != nil {
		return nil, 0, err
	}
	spread := 0.0
	for _, r := range data.Analysis.Rows {
		if r.HasRatio && r.Metric == r.Cell.Primary && r.Cell.Probe == "" {
			spread = max(spread, r.Estimate.Spread)
		}
	}
	if spread == 0 {
		return nil, 0, fmt.Errorf("pilot %q has no ratios with a spread", dir)
	}
	return data, spread, nil
}

// print writes the plan as text for people.
func (p planned) print(out io.Writer, r *experiment.Resolved) error {
	f := p.Forecast
	e := r.Experiment
	fmt.Fprintf(out, "experiment %s: %s in %s, with %s on %s\n", p.Name, several(len(r.Cells), "cell"),
		several(f.Labs, "lab"),
		several(f.Containers, "container"), several(f.Hosts, "host"))
	if e.Implied != "" {
		fmt.Fprintf(out, "baseline: %s\n", e.Implied)
	}
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
	if err := printItems(out, p.Paper); err != nil {
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
	if err := printLayers(out, p.Between); err != nil {
		return err
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
	fmt.Fprintf(out, ".\nRebuilding everything %d times takes about %v more", f.Generations, round(f.Building))
	if f.Proving > 0 {
		fmt.Fprintf(out, ", and trying who reaches whom up to %v", round(f.Proving))
	}
	if f.Attacking > 0 {
		fmt.Fprintf(out, ", and attacking the labs and their controls about %v", round(f.Attacking))
	}
	if e.Clusters == nil { // else it is the nodes'
		fmt.Fprintf(out, "; memory about %d MB", f.Memory/1e6)
	}
	fmt.Fprint(out, ".\n")
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
	if e.Design.Decided {
		fmt.Fprintln(out, "A cell that is decided gives its time to the others (--until decided).")
	}
	fmt.Fprintf(out, "Stacks count as equal within ±%s (--margin).\n",
		percent(e.Design.Judged().Equal()))
	printOpen(out, p.Open, p.pilot)
	printSpans(out, p.Spans, p.remembered)
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

// printFilters prints where each filter is enforced, and in which stacks.
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

// groupNames splits the name of a group of cells into the workload and where it runs.
func groupNames(c experiment.Cell) (load, where string) {
	pairs := several(c.Pairs, "pair")
	if c.Mix != nil {
		pairs = fmt.Sprintf("%d of %s for %s", c.Pairs, several(c.LabPairs, "pair"), c.Member)
	}
	list := []string{strings.ReplaceAll(c.Placement, "-", " "), pairs}
	for i, usual := range []string{experiment.Families()[0], experiment.Affinities()[0], experiment.IdleAuto} {
		if x := []string{c.Family, c.Affinity, c.Idle}[i]; x != usual {
			list = append(list, []string{"", "", "idle "}[i]+x)
		}
	}
	if c.Alone != "" {
		pairs := fmt.Sprintf("%d of %s for %s", c.Pairs, several(c.LabPairs, "pair"), c.Member)
		list[1] = pairs + ", alone"
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

// round rounds a duration for people.
func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
