package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/view"
)

// running is `run`: it expands an experiment, has it measured, and shows what came out.
type running struct {
	Streams
	experiments
	build
	*privileges
	report  reporting
	verbose *bool // say on standard error what happens
}

func (r running) command() *cobra.Command {
	f, dir, past, wait := &experimentFlags{}, "", "", false
	cmd := &cobra.Command{
		Use:   "run [EXPERIMENT.yaml | suite:NAME]",
		Short: "Measure: build the networks, drive the traffic, report the cost of each",
		Long: `Builds the networks on private hosts inside this machine, measures them in interleaved blocks, and prints a
table of what each costs over the baseline. For an ordinary user it does so in a user namespace.

Without an argument it runs the default experiment: a Linux bridge, nat and macvlan against no container network, UDP
round trips on one host and across two, and a TCP stream on one host. It takes a minute. To measure something else,
give an experiment file (nettoll init writes one) or change single values by flags. All records go into a directory
(-o, by default nettoll-NAME-TIME), with the report as a page, report.html.

A run that was interrupted, failed or was killed continues with --resume DIR, by the plan in that directory. Complete
generations count; an incomplete one is dropped and measured again. Another nettoll version, kernel or machine is
refused.`,
		Example: `  nettoll run
  nettoll run --network bridge --workload 'udp-rr(payload=1024,mode=spin)' --placement same-host --time 20s
  nettoll run --network routed --filter 'none,nftables(match=map,rules=1000)' --placement same-host
  nettoll run my.yaml --set factors.pairs=[1,10] -o ten-pairs
  nettoll run suite:ji2019                       a published paper: its figures and claims next to the results here
  nettoll run --workload 'tcp-stream(driver=iperf3)' --workload tcp-stream    with iperf3 and with nettoll itself`,
		Args: oneExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			if ended, err := r.rootless(); ended {
				return err
			}
			if cmd.Flags().Changed("resume") {
				return r.resume(cmd, args, past, wait)
			}
			resolved, err := r.resolve(cmd, args, f)
			if err != nil {
				return err
			}
			if err := fits(resolved); err != nil {
				return err
			}
			return r.run(cmd, resolved, dir, wait, nil)
		},
	}
	f.register(cmd.Flags(), r.library)
	cmd.Flags().BoolVar(&wait, "wait", false,
		"first wait for the nettoll runs that were started earlier on this machine")
	cmd.Flags().StringVarP(&dir, "output", "o", "",
		"run directory, new or empty (default nettoll-NAME-TIME)")
	cmd.Flags().StringVar(&past, "resume", "",
		"continue the run in this directory, which was interrupted, failed or was killed")
	return cmd
}

// resume continues the run in a directory.
func (r running) resume(cmd *cobra.Command, args []string, dir string, wait bool) error {
	wrong := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"resume", "wait", "verbose"}, f.Name) {
			wrong = "--" + f.Name
		}
	})
	if len(args) > 0 {
		wrong = strconv.Quote(args[0])
	}
	if wrong != "" {
		return usageError{fmt.Errorf("--resume takes the plan from the run directory and excludes %s", wrong)}
	}
	past, err := control.OpenPast(dir)
	if err != nil {
		return usageError{fmt.Errorf("--resume: %w", err)}
	}
	defer func() { _ = past.Close() }() // a run that ended has closed it
	e, err := past.Experiment()
	if err != nil {
		return usageError{fmt.Errorf("--resume: %w", err)}
	}
	cpus, err := thread.CPUs()
	if err != nil {
		return err
	}
	resolved, err := experiment.Resolve(e, r.catalogue.Parts(), len(cpus))
	if err != nil {
		return usageError{fmt.Errorf("--resume: %w", err)}
	}
	if err := fits(resolved); err != nil {
		return err
	}
	return r.run(cmd, resolved, dir, wait, past)
}

// run measures an experiment: from the beginning or, with a past, from where that ended.
func (r running) run(cmd *cobra.Command, resolved *experiment.Resolved, dir string, wait bool,
	past *control.Past,
) error {
	outlivePipes()
	if dir != "" && past == nil {
		if err := checkDirectory(dir); err != nil {
			return err
		}
	}
	if r.refused != nil {
		return r.refused
	}
	resolved, versions, lacking, err := r.lacking(cmd.Context(), resolved, r.build)
	if err != nil {
		return err
	}
	if err := meet(cmd.Context(), r.Err, wait); err != nil {
		return err
	}
	if dir == "" {
		if dir, err = newDirectory(fmt.Sprintf("nettoll-%s-%s", resolved.Experiment.Name,
			time.Now().Format("20060102-150405"))); err != nil {
			return err
		}
		defer func() { _ = os.Remove(dir) }() // succeeds only if the run failed before it kept anything
	}
	for _, o := range lacking {
		fmt.Fprintf(r.Err, "left out: %s (%s)\n", o.What, o.Reason)
	}
	uid, err := r.user()
	if err != nil {
		return err
	}
	o := control.Options{
		Resolved: resolved, Dir: dir, Versions: versions, Deployment: here(uid), Past: past,
	}
	if past != nil {
		if err := past.Fits(o); err != nil {
			return usageError{fmt.Errorf("--resume: %w", err)}
		}
	}
	p := newProgress(r.Err, resolved)
	o.Observe, o.Log = p.observe, r.logTo(p)
	out, err := control.Run(cmd.Context(), o)
	p.done()
	if errors.Is(err, control.ErrTaken) {
		return usageError{err}
	}
	if err := r.conclude(out, err, dir); err != nil || len(lacking) == 0 {
		return err
	}
	return status(exitPartly)
}

// logTo returns what tells the user what happens, nil where nobody asked.
func (r running) logTo(p *progress) func(string) {
	if !*r.verbose {
		return nil
	}
	return p.log
}

// checkDirectory refuses a directory to keep a run in that exists and is not empty.
func checkDirectory(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return usageError{fmt.Errorf("output directory: %w", err)}
	case len(entries) > 0:
		return usageError{fmt.Errorf("output directory %q is not empty (name a new one)", filepath.Clean(dir))}
	}
	return nil
}

// newDirectory makes a directory of that name, or, if it is taken, of that name with -2, -3, … behind it: several runs
// may start within one second.
func newDirectory(name string) (string, error) {
	dir := name
	for n := 2; ; n++ {
		err := os.Mkdir(dir, 0o777)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("make run directory: %w", err)
		}
		dir = fmt.Sprintf("%s-%d", name, n)
	}
}

// conclude prints the result and chooses the exit status.
func (r running) conclude(out *control.Outcome, err error, dir string) error {
	if err != nil {
		if out != nil && out.Interrupted && errors.Is(err, control.ErrNothingMeasured) {
			fmt.Fprintf(r.Err, "nettoll: nothing was measured yet (to continue: nettoll run --resume %s)\n", dir)
			return status(exitInterrupted)
		}
		if out == nil || errors.Is(err, control.ErrNothingMeasured) {
			return err
		}
	}
	// From the records, so that a report says the same to the last digit whenever it is made; from memory where a full
	// disk has kept none.
	data, _, loadErr := report.Load(dir)
	if loadErr != nil {
		data = &report.Data{Run: out.Run, Log: &out.Log, Analysis: out.Analysis}
	}
	if data.Log.End == nil { // a full disk has no record of it
		data.Log.End = &out.End
	}
	printErr := r.report.writeReport(r.Out, "text", data, r.textOptions())
	if errors.Is(printErr, syscall.EPIPE) {
		printErr = nil // nobody wants to read it any more; it is in the directory
	}
	why := "it failed"
	if out.End.Why != measure.EndFailed {
		why = out.End.Detail
	}
	fmt.Fprintf(r.Out, "\nThe run ended because %s. All records are in %s (nettoll report %s).\n", why, dir, dir)
	page := filepath.Join(dir, view.PageFile)
	if pageErr := cmp.Or(loadErr,
		view.WritePage(page, data, report.Options{
			Sections: r.report.sections(data.Run, data.Log, data.Analysis),
		})); pageErr != nil {
		err = cmp.Or(err, pageErr) // a disk that was full before is one sentence
	} else {
		fmt.Fprintf(r.Out, "The report is %s.\n", page)
	}
	err = errors.Join(err, printErr)
	if out.End.Why == measure.EndInterrupted {
		fmt.Fprintf(r.Out, "To continue: nettoll run --resume %s\n", dir)
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
