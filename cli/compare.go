package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/view"
)

// compareFlags are the flags of `compare`.
type compareFlags struct {
	figures               string
	failOn, only          []string
	width                 int
	anyway, all, absolute bool

	outputFlags
	format   string
	pictures view.Pictures
}

// comparing implements `compare`.
type comparing struct{ Streams }

func (v comparing) command() *cobra.Command {
	f := compareFlags{outputFlags: outputFlags{
		formats: view.CompareFormats(), to: "file to write to (default: standard output)", figures: true,
	}}
	cmd := &cobra.Command{
		Use:   "compare OLD NEW...",
		Short: "Compare runs: what got faster or slower, with intervals",
		Long: `Compares the cells that two run directories have in common. Each run measures its stacks against its own
baseline. The comparison divides these ratios, new by old, so that a change in the speed of the machine cancels out.
If the baseline itself has changed by more than the floor, the first line says so, because ratios hide what all
stacks share. In 19 of 20 pairs of equal runs it shows no difference in any cell.

With --absolute it compares the values themselves, the baseline's too. Use this to see what another kernel, machine or
setting does to all stacks alike. Whatever else differed between the two runs is then in the changes too.

Two runs are refused if they differ in something that a ratio may depend on: kernel, CPU, MTU, trial length,
congestion control, implementations and so on. The error lists the differences. With --absolute they are what is
compared, and only trial length, workload and primary metric have to be equal.

Several newer runs are each compared with OLD, and a table shows the values in all of them.

--fail-on takes words and expressions, separated by commas:

  slower            a primary metric got slower, or worse if it is not a speed; or the baseline itself did
  worse             the same
  toll              the same, but the baseline itself does not count: for machines that differ from run to run
  undecided         the comparison of a primary metric, or of an expression, is not decided
  leak              what a stack hides was read on the wire, or what it refuses arrived, in the newer run
  latency_p99>+5%   the metric grew by more than 5 % in some cell (or fell: goodput<-3%)
  latency_p50>x1.2  by a factor of more than 1.2
  loss>+0.5points   shares change by points, counts by numbers (retransmits>+2)

An expression fails a comparison only if noise does not explain it: the whole interval, widened for the number of
comparisons, lies beyond the bound, and the change is further from the bound than the floor. If that cannot be told, a
line on standard error says so; add undecided to fail then.

Exit status: 0 done; 1 failed, or --fail-on found something; 2 wrong usage, or runs that cannot be compared;
3 done, but a cell that is in both runs failed in one.`,
		Example: `  nettoll compare before after
  nettoll compare before after --all
  nettoll compare kernel-6.12 kernel-6.18 --absolute        what a new kernel does to every stack
  nettoll compare monday tuesday wednesday                  each against the first
  nettoll compare main pull-request --fail-on slower --output markdown -o comment.md
  nettoll compare main pull-request --fail-on 'latency_p99>+5%,goodput<-3%' --output junit -o compare.xml
  nettoll compare before after --output html -o page.html
  nettoll compare before after --figures figures`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usageError{fmt.Errorf("nettoll compare takes two arguments or more, the directories of the old run and "+
					"of new ones, got %d (see nettoll compare --help)", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			gates, err := f.check(cmd)
			if err != nil {
				return usageError{err}
			}
			f.note(cmd)
			return v.compare(args, gates, f)
		},
	}
	flags := cmd.Flags()
	f.register(cmd)
	flags.BoolVar(&f.all, "all", false, "show every metric, not only the primary ones")
	flags.BoolVar(&f.absolute, "absolute", false,
		"compare values instead of ratios to the baseline: for runs with another kernel, machine or setting")
	flags.BoolVar(&f.anyway, "anyway", false, "compare runs even if they differ in what ratios depend on, with a warning")
	flags.StringArrayVar(&f.failOn, "fail-on", nil, "exit with status 1 on any of these, separated by commas: "+
		strings.Join(report.GateWords(), ", ")+", or expressions such as latency_p99>+5% (may be given more than once)")
	flags.StringVar(&f.figures, "figures", "", "directory to write every figure to, instead of a comparison")
	flags.StringSliceVar(&f.only, "only", nil, "with --figures: write only these kinds ("+chosen+
		") or figures, by their file names without the ending")
	flags.IntVar(&f.width, "width", 0, "with --figures: their width, in pixels of PNG and CSS pixels of SVG and "+
		"PDF (default: 920 and 460)")
	return cmd
}

// check validates the flags and returns the gates of --fail-on.
func (f *compareFlags) check(cmd *cobra.Command) ([]report.Gate, error) {
	flags := cmd.Flags()
	gates, err := report.ParseGates(f.failOn)
	if err != nil {
		return nil, err
	}
	if flags.Changed("figures") {
		f.pictures, err = pictures(cmd, &f.outputFlags, f.only, f.width)
		if err == nil && f.figures == "" {
			err = errors.New("--figures needs the name of a directory")
		}
		return gates, err
	}
	for _, name := range []string{"only", "width"} {
		if flags.Changed(name) {
			return nil, fmt.Errorf("--%s is about figures: it needs --figures DIR", name)
		}
	}
	f.format, err = f.choose(cmd)
	return gates, err
}

// chosen lists the kinds of figures that --only can name.
const chosen = "change, values"

// load loads the records of all runs, the old one first. The returned function reports damaged records.
func (v comparing) load(dirs []string) (older report.Directory, newer []report.Directory, damage func(), err error) {
	var list []report.Directory
	var all [][]measure.Problem
	for i, dir := range dirs {
		data, problems, err := report.Load(dir)
		if err != nil {
			word := "NEW"
			switch {
			case i == 0:
				word = "OLD"
			case len(dirs) > 2:
				word = fmt.Sprintf("NEW %d", i)
			}
			return older, nil, nil, fmt.Errorf("%s: %w", word, err)
		}
		list, all = append(list, report.Directory{Dir: dir, Data: data}), append(all, problems)
	}
	return list[0], list[1:], func() {
		for i, problems := range all {
			v.damaged(dirs[i], problems)
		}
	}, nil
}

func (v comparing) compare(dirs []string, gates []report.Gate, f compareFlags) error {
	older, newer, damage, err := v.load(dirs)
	if err != nil {
		return err
	}
	l := report.CompareAll(measure.Comparing{Absolute: f.absolute}, older, newer...)
	switch err := l.Check(f.anyway); {
	case errors.Is(err, report.ErrIncomparable):
		return usageError{fmt.Errorf("%w\n  %s", err, otherwise(l))}
	case err != nil:
		return usageError{err}
	}
	if err := l.Judge(gates); err != nil {
		return usageError{err}
	}
	if err := v.put(l, f); err != nil {
		return err
	}
	damage()
	if f.format == "csv" || f.figures != "" { // these formats have no place for it
		said := map[string]bool{}
		for _, c := range l {
			for _, d := range append(c.Standing(), c.Doubts()...) {
				if !said[d] {
					fmt.Fprintf(v.Err, "nettoll: %s\n", d)
				}
				said[d] = true
			}
		}
	}
	for _, s := range l.Untold() {
		fmt.Fprintf(v.Err, "nettoll: %s\n", s)
	}
	failures := l.Failures()
	if len(failures) > 0 {
		return errors.New(strings.Join(failures, "\n"))
	}
	for _, c := range l {
		if c.Failed() > 0 {
			return status(exitPartly)
		}
	}
	return nil
}

// otherwise says how runs that differ can be compared.
func otherwise(l report.Comparisons) string {
	const anyway = "--anyway compares them, with a warning"
	for _, c := range l {
		if c.Essential() {
			return "(" + anyway + ")"
		}
	}
	return "(--absolute compares values instead of ratios: it shows what this difference does to every stack; " + anyway +
		")"
}

// put writes a comparison, or its figures if --figures is given.
func (v comparing) put(l report.Comparisons, f compareFlags) error {
	if f.figures == "" {
		return v.write(l, f)
	}
	names, err := view.ComparedFigures(f.figures, l, f.pictures)
	if errors.Is(err, view.ErrUnknownFigure) {
		return usageError{err}
	}
	for _, name := range names {
		fmt.Fprintln(v.Out, filepath.Join(f.figures, name))
	}
	if err == nil && len(names) == 0 {
		fmt.Fprintf(v.Err, "nettoll: there are no changes to draw\n")
	}
	return err
}

// write writes a comparison to the file of -o, or to standard output.
func (v comparing) write(l report.Comparisons, f compareFlags) (err error) {
	out, o := v.Out, v.textOptions()
	o.All = f.all
	if f.file != "" {
		file, err := os.Create(f.file)
		if err != nil {
			return fmt.Errorf("write comparison: %w", err)
		}
		defer func() {
			if closeErr := file.Close(); err == nil {
				err = closeErr
			}
		}()
		out, o.Color = file, false
	}
	return view.WriteCompared(out, f.format, l, o)
}

// damaged prints the first unreadable record of a run and how many more there are.
func (v comparing) damaged(dir string, problems []measure.Problem) {
	if len(problems) == 0 {
		return
	}
	more := ""
	if n := len(problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	fmt.Fprintf(v.Err, "nettoll: records of %s: %v%s\n", dir, problems[0], more)
}
