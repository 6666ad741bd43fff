package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/view"
)

// compareFlags are the flags of `compare`.
type compareFlags struct {
	format, file, failOn string
	anyway, all          bool
}

// gates are what --fail-on knows.
func gates() []string { return []string{"slower"} }

// comparing is `compare`.
type comparing struct{ Streams }

func (v comparing) command() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two runs: what got faster or slower, with intervals",
		Long: `Compares the cells that two run directories have in common. Each run measures its stacks against its own
baseline. The comparison divides these ratios, new by old, so that a change in the speed of the machine cancels out.
In 19 of 20 pairs of equal runs it shows no difference in any cell.

Two runs are refused if they differ in something that a ratio may depend on: kernel, CPU, MTU, trial length,
congestion control, implementations and so on. The error lists the differences.

Exit status: 0 done; 1 failed, or --fail-on found something; 2 wrong usage, or runs that cannot be compared;
3 done, but a cell that is in both runs failed in one.`,
		Example: `  nettoll compare before after
  nettoll compare before after --all
  nettoll compare main pull-request --fail-on slower --format markdown -o comment.md`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{fmt.Errorf("nettoll compare takes two arguments, the directories of the old and the new run, "+
					"got %d (see nettoll compare --help)", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := view.CheckCompared(f.format); err != nil {
				return usageError{err}
			}
			if cmd.Flags().Changed("fail-on") && !slices.Contains(gates(), f.failOn) {
				return usageError{fmt.Errorf("unknown --fail-on %q (known: %s)", f.failOn, strings.Join(gates(), ", "))}
			}
			return v.compare(args[0], args[1], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "text", "one of "+strings.Join(view.CompareFormats(), ", "))
	flags.StringVarP(&f.file, "output", "o", "", "file to write to (default: standard output)")
	flags.BoolVar(&f.all, "all", false, "show every metric, not only the primary ones")
	flags.BoolVar(&f.anyway, "anyway", false, "compare runs even if they differ in what ratios depend on, with a warning")
	flags.StringVar(&f.failOn, "fail-on", "",
		"slower: exit with status 1 if a primary metric got slower, or worse if it is not a speed")
	return cmd
}

func (v comparing) compare(oldDir, newDir string, f compareFlags) error {
	older, oldProblems, err := report.Load(oldDir)
	if err != nil {
		return fmt.Errorf("OLD: %w", err)
	}
	newer, newProblems, err := report.Load(newDir)
	if err != nil {
		return fmt.Errorf("NEW: %w", err)
	}
	c := report.Compare(oldDir, newDir, older, newer)
	switch err := c.Check(f.anyway); {
	case errors.Is(err, report.ErrIncomparable):
		return usageError{fmt.Errorf("%w\n  (--anyway compares them, with a warning)", err)}
	case err != nil:
		return usageError{err}
	}
	if err := v.write(c, f); err != nil {
		return err
	}
	v.damaged(oldDir, oldProblems)
	v.damaged(newDir, newProblems)
	if f.format == "csv" { // has no place for them
		for _, d := range append(c.Standing(), c.Doubts()...) {
			fmt.Fprintf(v.Err, "nettoll: %s\n", d)
		}
	}
	switch worse := c.Worse(); {
	case f.failOn != "" && worse > 0:
		return fmt.Errorf("--fail-on %s: %d of the cells in %q are worse than in %q", f.failOn, worse, newDir, oldDir)
	case c.Failed() > 0:
		return status(exitPartly)
	}
	return nil
}

// write writes a comparison where it belongs.
func (v comparing) write(c *report.Compared, f compareFlags) (err error) {
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
	return view.WriteCompared(out, f.format, c, o)
}

// damaged says what could not be read of the records of a run.
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
