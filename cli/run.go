package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/lab"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/view"
)

// running implements `run`: it expands an experiment, has it measured, and shows the results.
type running struct {
	Streams
	experiments
	build
	*privileges
	report  reporting
	verbose *bool // report progress on standard error
}

func (r running) command() *cobra.Command {
	f, past, o := &experimentFlags{}, "", runFlags{}
	out := outputFlags{formats: runFormats(), to: "run directory, new or empty (default nettoll-NAME-TIME; the stacks " +
		"name an experiment without a name)"}
	cmd := &cobra.Command{
		Use:   "run [EXPERIMENT.yaml | suite:NAME]",
		Short: "Measure: build the networks, drive the traffic, report the cost of each",
		Long: `Builds the networks on private hosts inside this machine, measures them in interleaved blocks, and prints a
table of what each costs over the baseline. For an ordinary user it does so in a user namespace.

Without an argument it runs the default experiment: a Linux bridge, nat and macvlan against no container network, UDP
round trips on one host and across two, and a TCP stream on one host. It takes a minute. To measure something else,
give an experiment file (nettoll init writes one) or change single values by flags. All records go into a directory
(-o, by default nettoll-NAME-TIME), with the report as a page, report.html. With --output it prints the results in
another format, for scripts CSV, JSON lines or JSON. Progress and messages then go to standard error.

All changes are relative to the baseline. The baseline is no container network, unless the experiment or --baseline
names another stack. With a single network, --filter measures the cost of the filters on it: the baseline is that
network without a filter. In the same way, several values of --mtu or --congestion-control are compared with the first.

--resume DIR continues a run that was interrupted, failed or was killed, with the plan in that directory. Complete
generations count. An incomplete one is dropped and measured again. Another nettoll version, kernel or machine is
refused.`,
		Example: `  nettoll run
  nettoll run --network bridge --workload 'udp-rr(payload=1024,mode=spin)' --placement same-host --time 20s
  nettoll run --network routed --filter 'nftables(match=map,rules=[10,1000])'    against routed without a filter
  nettoll run --network bridge --mtu 1500,9000 --workload tcp-stream            what MTU 9000 changes
  nettoll run --network macvlan --baseline bridge                               whether macvlan is faster than bridge
  nettoll run my.yaml --set factors.pairs=[1,10] -o ten-pairs
  nettoll run suite:ji2019                       a published paper: its figures and claims next to the results here
  nettoll run suite:ji2019 --figure 4 --claim 7  only what these need; nettoll plan suite:ji2019 lists them
  nettoll run suite:ji2019 --time 60s            as many of its claims as fit into a minute
  nettoll run --workload 'tcp-stream(driver=iperf3)' --workload tcp-stream    with iperf3 and with nettoll itself`,
		Args: oneExperiment,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.format, err = out.choose(cmd); err != nil {
				return err
			}
			if ended, err := r.rootless(); ended {
				return err
			}
			out.note(cmd)
			o.dir = out.file
			if cmd.Flags().Changed("resume") {
				o.dir = past
				return r.resume(cmd, args, o)
			}
			var at deploy.Deployment
			defer func() { err = errors.Join(err, closed(at)) }() // a run that was measured has closed it
			r.anywhere, r.cpus = true, func(e experiment.Experiment) (n int, err error) {
				at, n, err = r.place(cmd.Context(), e)
				return n, err
			}
			resolved, err := r.resolve(cmd, args, f)
			if err != nil {
				return err
			}
			if err := fits(resolved); err != nil {
				return err
			}
			return r.run(cmd, resolved, o, at, nil)
		},
	}
	f.register(cmd.Flags(), r.library)
	f.registerPaper(cmd.Flags())
	cmd.Flags().BoolVar(&o.wait, "wait", false,
		"first wait for the nettoll runs that were started earlier on this machine")
	cmd.Flags().BoolVar(&o.pcap, "pcap", false, "keep the frames between hosts of proofs in pcap/ of the run directory, "+
		"for Wireshark: those of the first generation, and of each proof in which a frame is not one that the stack sends")
	out.register(cmd)
	cmd.Flags().StringVar(&past, "resume", "",
		"continue the run in this directory, which was interrupted, failed or was killed")
	return cmd
}

// runFlags are the flags of run that are not part of the experiment.
type runFlags struct {
	dir, format string
	wait, pcap  bool
}

// runFormats lists the formats of printed results, the default first. The HTML page is always written to the run
// directory.
func runFormats() []string {
	return slices.DeleteFunc(view.Formats(), func(f string) bool { return f == "html" })
}

// resume continues the run in a directory.
func (r running) resume(cmd *cobra.Command, args []string, o runFlags) (err error) {
	wrong := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == "output" && isFormat(f.Value.String()) {
			return
		}
		if !slices.Contains([]string{"resume", "wait", "pcap", "format", "verbose"}, f.Name) {
			wrong = "--" + f.Name
		}
	})
	if len(args) > 0 {
		wrong = strconv.Quote(args[0])
	}
	if wrong != "" {
		return usageError{fmt.Errorf("--resume takes the plan from the run directory and excludes %s", wrong)}
	}
	past, err := control.OpenPast(o.dir)
	if err != nil {
		return usageError{fmt.Errorf("--resume: %w", err)}
	}
	defer func() { _ = past.Close() }() // a run closes it when it ends
	e, err := past.Experiment()
	if err != nil {
		return usageError{fmt.Errorf("--resume: %w", err)}
	}
	at, cpus, err := r.place(cmd.Context(), e)
	defer func() { err = errors.Join(err, closed(at)) }()
	if err != nil {
		return err
	}
	resolved, err := experiment.Resolve(e, r.catalogue.Parts(), cpus)
	if err != nil {
		return usageError{fmt.Errorf("--resume: %w", err)}
	}
	if err := fits(resolved); err != nil {
		return err
	}
	return r.run(cmd, resolved, o, at, past)
}

// place returns where the labs of an experiment will stand, and how many CPUs its hosts have. It reaches a cluster.
func (r running) place(ctx context.Context, e experiment.Experiment) (at deploy.Deployment, cpus int, err error) {
	if e.Clusters == nil {
		if r.refused != nil {
			return nil, 0, r.refused
		}
		uid, err := r.user()
		if err != nil {
			return nil, 0, err
		}
		at = here(uid)
	} else {
		at = there(e, r.catalogue.Cluster, func(text string) { fmt.Fprintf(r.Err, "waiting: %s\n", text) })
	}
	list, err := at.CPUs(ctx)
	if ctx.Err() != nil {
		err = status(exitInterrupted)
	}
	return at, len(list), err
}

// closed closes a deployment, if there is one.
func closed(at deploy.Deployment) error {
	if at == nil {
		return nil
	}
	return at.Close()
}

// run measures an experiment: from the beginning or, with a past run, from where that ended.
func (r running) run(cmd *cobra.Command, resolved *experiment.Resolved, how runFlags, at deploy.Deployment,
	past *control.Past,
) error {
	outlivePipes()
	dir := how.dir
	if dir != "" && past == nil {
		if err := checkDirectory(dir); err != nil {
			return err
		}
	}
	if how.pcap && !slices.ContainsFunc(resolved.Labs, func(l experiment.Lab) bool { return l.Hosts > 1 }) {
		return usageError{errors.New("--pcap: no stack is measured across hosts, so no frame passes between hosts (hint: " +
			"--placement cross-host)")}
	}
	if how.pcap {
		if err := onlyHere(resolved.Experiment, "--pcap"); err != nil {
			return err
		}
	}
	resolved, versions, lacking, err := r.lacking(cmd.Context(), resolved, at, r.build)
	if err != nil {
		return err
	}
	if resolved.Experiment.Clusters == nil { // else what is measured is not on this machine
		if err := meet(cmd.Context(), r.Err, how.wait); err != nil {
			return err
		}
	}
	if dir == "" {
		named := measure.Run{Name: resolved.Experiment.Name}
		for _, c := range resolved.Cells {
			named.Cells = append(named.Cells, c.Cell)
		}
		if dir, err = newDirectory(fmt.Sprintf("nettoll-%s-%s", report.DirectoryName(named),
			time.Now().Format("20060102-150405"))); err != nil {
			return err
		}
		defer func() { _ = os.Remove(dir) }() // succeeds only if the run wrote nothing
	}
	for _, o := range lacking {
		fmt.Fprintf(r.Err, "left out: %s (%s)\n", o.What, o.Reason)
	}
	if tried := r.tried(resolved); tried != "" {
		fmt.Fprintln(r.Err, tried)
	}
	o := control.Options{
		Resolved: resolved, Parts: r.catalogue.Parts(), Dir: dir, Versions: versions, Deployment: at, Past: past,
		PCAP: how.pcap,
	}
	if s := r.paperOf(resolved); s != nil {
		o.Goals = s.Goals
	}
	if past == nil {
		resolved.Experiment.Source = withCommand(resolved.Experiment.Source, r.args)
	} else if err := past.Fits(cmd.Context(), o); err != nil {
		return usageError{fmt.Errorf("--resume: %w", err)}
	}
	p := newProgress(r.Err, resolved)
	o.Observe, o.Log = p.observe, r.logTo(p)
	o.LeftOut = func(lab string, reason error) { fmt.Fprintf(r.Err, "left out: lab %s (%v)\n", lab, reason) }
	out, err := control.Run(cmd.Context(), o)
	p.done()
	if errors.Is(err, control.ErrTaken) {
		return usageError{err}
	}
	if err := r.conclude(out, err, dir, how.format); err != nil || len(lacking) == 0 {
		return err
	}
	return status(exitPartly)
}

// withCommand adds a comment with the command line to the source of an experiment.
func withCommand(source string, args []string) string {
	if source == "" {
		return ""
	}
	words := []string{"nettoll"}
	for _, a := range args {
		words = append(words, lab.Quote(strings.Join(strings.Fields(a), " "))) // a comment has one line
	}
	said := "# measured by: " + strings.Join(words, " ") + "\n"
	// Editors look for the schema in the first line.
	if first, rest, ok := strings.Cut(source, "\n"); ok && strings.HasPrefix(first, "# yaml-language-server:") {
		return first + "\n" + said + rest
	}
	return said + source
}

// logTo returns the function that prints messages, or nil without --verbose.
func (r running) logTo(p *progress) func(string) {
	if !*r.verbose {
		return nil
	}
	return p.log
}

// checkDirectory refuses a run directory that is not empty. It may be missing.
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

// newDirectory makes a directory of this name or, if it exists, with -2, -3, … appended: several runs may start within
// one second.
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

// refuted says whether a proof or an attack has shown that a claim of some lab does not hold.
func refuted(log *measure.Log) bool {
	return slices.ContainsFunc(log.Proofs, func(p measure.Proof) bool { return !p.OK }) ||
		slices.ContainsFunc(log.Attacks, func(x measure.Attacks) bool { return x.Broken() })
}

// conclude prints the results, writes the page, and chooses the exit status.
func (r running) conclude(out *control.Outcome, err error, dir, format string) error {
	unproven := out != nil && refuted(&out.Log)
	if err != nil {
		if unproven {
			err = unprovenError{err}
		}
		if out != nil && out.Interrupted && errors.Is(err, control.ErrNothingMeasured) {
			fmt.Fprintf(r.Err, "nettoll: nothing was measured yet (to continue: nettoll run --resume %s)\n", dir)
			return status(exitInterrupted)
		}
		if out == nil || errors.Is(err, control.ErrNothingMeasured) {
			return err
		}
	}
	// Read the records, so that the report is the same whenever it is made. If a full disk has kept none, use the results
	// in memory.
	data, _, loadErr := report.Load(dir)
	if loadErr != nil {
		data = &report.Data{Run: out.Run, Log: &out.Log, Analysis: out.Analysis}
	}
	if data.Log.End == nil { // a full disk has no end record
		data.Log.End = &out.End
	}
	words := r.Out
	if format != "text" { // standard output is for a program
		words = r.Err
	}
	if format == "csv" { // CSV has no place for it
		r.report.standing(data)
	}
	printErr := r.report.writeReport(r.Out, format, data, r.textOptions())
	if errors.Is(printErr, syscall.EPIPE) {
		printErr = nil // the reader closed the pipe; the records are in the directory
	}
	why := "it failed"
	if out.End.Why != measure.EndFailed {
		why = out.End.Detail
	}
	fmt.Fprintf(words, "\nThe run ended because %s. All records are in %s (nettoll report %s).\n", why, dir, dir)
	if pageErr := cmp.Or(loadErr,
		view.WritePage(dir, data, report.Options{
			Sections: r.report.sections(data.Run, data.Log, data.Analysis),
		})); pageErr != nil {
		err = cmp.Or(err, pageErr) // a full disk is one error, not two
	} else {
		fmt.Fprintf(words, "The report is %s.\n", filepath.Join(dir, view.PageFile))
	}
	err = errors.Join(err, printErr)
	if out.End.Why == measure.EndInterrupted {
		fmt.Fprintf(words, "To continue: nettoll run --resume %s\n", dir)
	}
	switch {
	case out.Interrupted:
		return status(exitInterrupted)
	case err != nil:
		return err
	case unproven:
		return status(exitUnproven)
	case len(out.Analysis.Failed) > 0 || len(out.Dropped) > 0:
		return status(exitPartly)
	}
	return nil
}
