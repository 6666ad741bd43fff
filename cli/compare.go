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
)

// compareFlags are the flags of `compare`.
type compareFlags struct {
	format, file, failOn string
	anyway, all          bool
}

// gates are what --fail-on knows.
func gates() []string { return []string{"slower"} }

func (a *app) compareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two runs: what has become faster or slower, and how sure that is",
		Long: `Compares the cells that two run directories have in common. Every run measures its stacks against its own
baseline; what is compared is these ratios, new over old, so that a machine that is otherwise faster or slower
than it was cancels. Of 20 pairs of equal runs 19 show no difference in any cell.

Runs that differ in what a ratio may depend on (kernel, CPU, MTU, length of trials, congestion control,
implementations …) are refused with what differs.

Exit status: 0 done; 1 failed, or --fail-on has found something; 2 wrong usage, or runs that cannot be compared;
3 done, but a cell that both runs have failed in one of them.`,
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
			if err := report.CheckCompareFormat(f.format); err != nil {
				return usageError{err}
			}
			if cmd.Flags().Changed("fail-on") && !slices.Contains(gates(), f.failOn) {
				return usageError{fmt.Errorf("unknown --fail-on %q (known: %s)", f.failOn, strings.Join(gates(), ", "))}
			}
			return a.compare(args[0], args[1], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "text", "one of "+strings.Join(report.CompareFormats(), ", "))
	flags.StringVarP(&f.file, "output", "o", "", "file to write to (default: standard output)")
	flags.BoolVar(&f.all, "all", false, "every metric, not the primary ones alone")
	flags.BoolVar(&f.anyway, "anyway", false, "compare runs that differ in what ratios may depend on, and warn of it")
	flags.StringVar(&f.failOn, "fail-on", "",
		"slower: exit with status 1 if a primary metric has become slower, or worse in what is no speed")
	return cmd
}

func (a *app) compare(oldDir, newDir string, f compareFlags) error {
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
		return usageError{fmt.Errorf("%w\n  (--anyway compares them all the same, and warns)", err)}
	case err != nil:
		return usageError{err}
	}
	if err := a.write(c, f); err != nil {
		return err
	}
	a.damaged(oldDir, oldProblems)
	a.damaged(newDir, newProblems)
	if f.format == "csv" { // has no place for them
		for _, d := range append(c.Standing(), c.Doubts()...) {
			fmt.Fprintf(a.Err, "nettoll: %s\n", d)
		}
	}
	switch worse := c.Worse(); {
	case f.failOn != "" && worse > 0:
		return fmt.Errorf("--fail-on %s: %d of the cells in %q have become worse than in %q", f.failOn, worse, newDir, oldDir)
	case c.Failed() > 0:
		return status(exitPartly)
	}
	return nil
}

// write writes a comparison where it belongs.
func (a *app) write(c *report.Compared, f compareFlags) (err error) {
	out, o := a.Out, a.textOptions()
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
	return c.Write(out, f.format, o)
}

// damaged says what could not be read of the records of a run.
func (a *app) damaged(dir string, problems []measure.Problem) {
	if len(problems) == 0 {
		return
	}
	more := ""
	if n := len(problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	fmt.Fprintf(a.Err, "nettoll: records of %s: %v%s\n", dir, problems[0], more)
}
