package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/report"
)

func (a *app) runCommand() *cobra.Command {
	f, dir := &experimentFlags{}, ""
	cmd := &cobra.Command{
		Use:   "run [EXPERIMENT.yaml | suite:NAME]",
		Short: "Measure: build the networks, drive the traffic, report what each costs",
		Long: `Builds the networks on private hosts inside this machine, measures them in interleaved blocks, and prints a
table of what each costs over the baseline. As an ordinary user it does so in a user namespace.

Without an argument it is the default experiment: a Linux bridge, nat and macvlan against no container network at
all, UDP round trips on one host and across two, a TCP stream on one host. It takes a minute. An experiment file says
what else to measure (nettoll init writes one); flags change single values of it. Everything measured is kept in a
directory, nettoll-NAME-TIME where -o names no other, with the report as a page, report.html.`,
		Example: `  nettoll run
  nettoll run --network bridge --workload 'udp-rr(payload=1024,mode=spin)' --placement same-host --time 20s
  nettoll run --network routed --filter 'none,nftables(match=map,rules=1000)' --placement same-host
  nettoll run my.yaml --set factors.pairs=[1,10] -o ten-pairs
  nettoll run suite:ji2019                       a published paper, its figures and claims beside what is measured here
  nettoll run --workload 'tcp-stream(driver=iperf3)' --workload tcp-stream    with iperf3, and with nettoll's own engine`,
		Args: oneExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			if ended, err := a.rootless(); ended {
				return err
			}
			resolved, err := a.resolve(cmd, args, f)
			if err != nil {
				return err
			}
			if err := a.fits(resolved); err != nil {
				return err
			}
			return a.run(cmd, resolved, dir)
		},
	}
	f.register(cmd.Flags(), a)
	cmd.Flags().StringVarP(&dir, "output", "o", "", "directory to keep everything in; new or empty (default nettoll-NAME-TIME)")
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

func (a *app) filters() []string {
	var names []string
	for _, c := range a.filterChoices() {
		names = append(names, c.name)
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

func (a *app) run(cmd *cobra.Command, resolved *experiment.Resolved, dir string) error {
	dir, err := runDirectory(dir, resolved.Experiment.Name, time.Now())
	if err != nil {
		return err
	}
	if a.refused != nil {
		return a.refused
	}
	resolved, versions, lacking, err := a.lacking(cmd.Context(), resolved)
	if err != nil {
		return err
	}
	for _, o := range lacking {
		fmt.Fprintf(a.Err, "left out: %s (%s)\n", o.What, o.Reason)
	}
	p := newProgress(a.Err, resolved)
	out, err := control.Run(cmd.Context(), control.Options{
		Resolved: resolved, Dir: dir, Versions: versions,
		Observe: p.observe, Log: a.logTo(p), Start: startLocal,
	})
	p.done()
	if err := a.conclude(out, err, dir); err != nil || len(lacking) == 0 {
		return err
	}
	return status(exitPartly)
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
	// From the records, so that a report says the same to the last digit whenever it is made; from memory where a full disk has kept none.
	data, _, loadErr := report.Load(dir)
	if loadErr != nil {
		data = &report.Data{Run: out.Run, Log: &out.Log, Analysis: out.Analysis}
	}
	if printErr := a.writeReport(a.Out, "text", data, a.textOptions()); printErr != nil {
		return errors.Join(err, printErr)
	}
	fmt.Fprintf(a.Out, "\nIt ended because %s. Everything is in %s (nettoll report %s).\n", out.Ended, dir, dir)
	page := filepath.Join(dir, report.PageFile)
	if pageErr := cmp.Or(loadErr, report.WritePage(page, data, report.Options{Sections: a.sections(data.Run, data.Log, data.Analysis)})); pageErr != nil {
		err = cmp.Or(err, pageErr) // a disk that was full before is one sentence
	} else {
		fmt.Fprintf(a.Out, "The report is %s.\n", page)
	}
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
		o.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			o.Width = width
		}
	}
	return o
}
