package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/report"
)

// runFlags are the flags of `run`.
type runFlags struct {
	networks    []string
	workloads   []string
	placements  []string
	pairs       []int
	time        time.Duration
	trial       time.Duration
	precision   string
	generations int
	seed        uint64
	affinity    string
	congestion  string
	mtu         int
	dir         string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	d := experiment.Default()
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure: build the networks, drive the traffic, report what each costs",
		Long: `Builds the networks on private hosts inside this machine, measures them in interleaved blocks, and prints a
table of what each costs over the baseline, the network "host" (on one host that is loopback).

Without a flag it measures a Linux bridge against loopback: UDP round trips on one host and across two, and
a TCP stream on one host. It takes less than a minute. Everything measured is kept in a directory,
nettoll-NAME-TIME where -o names no other, from which "nettoll report" makes the table again.`,
		Example: `  nettoll run
  nettoll run --network bridge --workload 'udp-rr(payload=1024,mode=spin)' --placement same-host --time 20s
  nettoll run --workload tcp-stream --pairs 1,10 -o ten-pairs`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.networks, "network", nil, "networks to compare with the baseline, host (default "+strings.Join(d.Networks[1:], ",")+"; known: "+strings.Join(a.networks(), ", ")+")")
	flags.StringArrayVar(&f.workloads, "workload", nil, "workload, as NAME or NAME(parameter=value,…); may be given more than once (known: "+strings.Join(a.workloads(), ", ")+")")
	flags.StringSliceVar(&f.placements, "placement", nil, "where the two ends of a pair are: same-host, cross-host (default: the workload's in the default experiment)")
	flags.IntSliceVar(&f.pairs, "pairs", d.Pairs, "how many pairs talk at the same time; a list is measured one by one")
	flags.DurationVar(&f.time, "time", d.Design.Time, "time to measure, at most; building and removing come on top")
	flags.StringVar(&f.precision, "precision", "2%", "half-width of the 95 % interval at which a cell needs no more blocks")
	flags.IntVar(&f.generations, "generations", d.Design.Generations, "how often everything is built anew, at least")
	flags.DurationVar(&f.trial, "trial", 0, "length of a trial (default: the shortest sound one of each workload)")
	flags.Uint64Var(&f.seed, "seed", d.Design.Seed, "seed of the order, the ports and the MAC addresses")
	flags.StringVar(&f.affinity, "affinity", d.Affinity, "which CPUs sources and sinks run on: split, same, free")
	flags.StringVar(&f.congestion, "congestion-control", d.Tune.Congestion, "TCP congestion control of all cells; auto: the first of cubic, reno, bbr that all can set")
	flags.IntVar(&f.mtu, "mtu", d.Tune.MTU, "MTU of every link, loopback included")
	flags.StringVarP(&f.dir, "output", "o", "", "directory to keep everything in; new or empty (default nettoll-NAME-TIME)")
	return cmd
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("nettoll %s takes no argument, got %q (see nettoll %s --help)", cmd.Name(), args[0], cmd.Name())}
	}
	return nil
}

func (a *app) networks() []string {
	var names []string
	for _, n := range a.catalogue.Networks {
		names = append(names, n.Describe().Name)
	}
	return names
}

func (a *app) workloads() []string {
	var names []string
	for _, w := range a.catalogue.Workloads {
		names = append(names, w.Describe().Name)
	}
	return names
}

// experiment makes an experiment of the flags.
func (f runFlags) experiment() (experiment.Experiment, error) {
	e := experiment.Default()
	if f.networks != nil && len(f.networks) == 0 {
		return e, errors.New("network: want at least one name")
	}
	if f.networks != nil {
		e.Networks = append([]string{e.Baseline}, f.networks...)
	}
	var placements []experiment.Placement
	for _, name := range f.placements {
		p, err := experiment.ParsePlacement(name)
		if err != nil {
			return e, err
		}
		placements = append(placements, p)
	}
	if f.workloads != nil {
		e.Workloads = nil
		for _, w := range f.workloads {
			at := placements
			if at == nil {
				at = experiment.Placements()
			}
			e.Workloads = append(e.Workloads, experiment.Load{Workload: w, Placements: at})
		}
	} else if placements != nil {
		for i, w := range e.Workloads {
			e.Workloads[i].Placements = slices.DeleteFunc(slices.Clone(placements), func(p experiment.Placement) bool { return !slices.Contains(w.Placements, p) })
		}
	}
	precision, err := parseShare(f.precision)
	if err != nil {
		return e, fmt.Errorf("precision: %w", err)
	}
	e.Pairs, e.Affinity = f.pairs, f.affinity
	e.Design = experiment.Design{Precision: precision, Time: f.time, Generations: f.generations, Trial: f.trial, Seed: f.seed}
	e.Tune = experiment.Tune{Congestion: f.congestion, MTU: f.mtu}
	return e, nil
}

// parseShare reads "2%" or "0.02".
func parseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a share (want 2%% or 0.02)", s)
	}
	if percent {
		x /= 100
	}
	return x, nil
}

func (a *app) run(cmd *cobra.Command, f runFlags) error {
	e, err := f.experiment()
	if err != nil {
		return usageError{err}
	}
	cpus, err := thread.CPUs()
	if err != nil {
		return err
	}
	resolved, err := experiment.Resolve(e, a.catalogue.Parts(), len(cpus))
	if err != nil {
		return usageError{err}
	}
	dir, err := runDirectory(f.dir, e.Name, time.Now())
	if err != nil {
		return err
	}
	p := newProgress(a.Err, resolved)
	out, err := control.Run(cmd.Context(), control.Options{
		Resolved: resolved, Runtime: a.catalogue.Runtimes[0], Dir: dir, Versions: map[string]string{"nettoll": a.versionText()},
		Observe: p.observe, Log: a.logTo(p), Start: startLocal,
	})
	p.done()
	return a.conclude(out, err, dir)
}

// logTo returns what tells the user what happens, nil where nobody asked.
func (a *app) logTo(p *progress) func(string) {
	if !a.verbose {
		return nil
	}
	return p.log
}

// runDirectory returns the directory of a run. One that exists must be empty.
func runDirectory(dir, name string, now time.Time) (string, error) {
	if dir == "" {
		return fmt.Sprintf("nettoll-%s-%s", name, now.Format("20060102-150405")), nil
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return dir, nil
	case err != nil:
		return "", usageError{fmt.Errorf("output directory: %w", err)}
	case len(entries) > 0:
		return "", usageError{fmt.Errorf("output directory %q is not empty (name a new one)", filepath.Clean(dir))}
	}
	return dir, nil
}

// conclude prints the result and chooses the exit status.
func (a *app) conclude(out *control.Outcome, err error, dir string) error {
	if err != nil {
		if out != nil && out.Interrupted && errors.Is(err, control.ErrNothingMeasured) {
			fmt.Fprintln(a.Err, "nettoll: nothing was measured yet")
			return status(exitInterrupted)
		}
		if out == nil || errors.Is(err, control.ErrNothingMeasured) {
			return err
		}
	}
	if printErr := report.Text(a.Out, out.Run, out.Analysis, a.textOptions()); printErr != nil {
		return errors.Join(err, printErr)
	}
	fmt.Fprintf(a.Out, "\nIt ended because %s. Everything is in %s (nettoll report %s).\n", out.Ended, dir, dir)
	switch {
	case out.Interrupted:
		return status(exitInterrupted)
	case err != nil:
		return err
	case len(out.Analysis.Failed) > 0 || len(out.Dropped) > 0:
		return status(exitPartly)
	}
	return nil
}

func (a *app) textOptions() report.Options {
	o := report.Options{Width: 100}
	if f, ok := a.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		o.Color = os.Getenv("NO_COLOR") == ""
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			o.Width = width
		}
	}
	return o
}
