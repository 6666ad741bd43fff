package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
	"github.com/nettoll/nettoll/report/view"
)

func (a *app) reportCommand() *cobra.Command {
	var format, file, figures string
	var trials, all bool
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Show the results of a run: as a table, a page, Markdown, figures, CSV or JSON lines",
		Long: `Reads the records of a run and shows the results. It measures nothing and needs no privilege. From a damaged or
truncated file it uses what it can read, and it names the lines that it cannot use.

The page (--format html) is one file without external references: you can mail it, put it on a server, or print it.
nettoll run writes it into the run directory as report.html.`,
		Example: `  nettoll report nettoll-default-20260102-030405
  nettoll report DIR --format html -o page.html
  nettoll report DIR --format markdown          to paste into an issue
  nettoll report DIR --figures figures          every figure as SVG and as PNG
  nettoll report DIR --format csv -o result.csv
  nettoll report DIR --format csv --trials      a row for every single trial`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("nettoll report takes one argument, the directory of a run, got %d (see nettoll "+
					"report --help)", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := view.Check(format); err != nil {
				return usageError{err}
			}
			if trials && format != "csv" {
				return usageError{fmt.Errorf("--trials needs --format csv, got %q", format)}
			}
			if !cmd.Flags().Changed("figures") {
				return a.report(args[0], format, file, trials, all)
			}
			for _, other := range []string{"format", "output", "trials", "all"} {
				if cmd.Flags().Changed(other) {
					return usageError{fmt.Errorf("--figures writes figures and no report: it excludes --%s", other)}
				}
			}
			if figures == "" {
				return usageError{errors.New("--figures needs the name of a directory")}
			}
			return a.figures(args[0], figures)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "one of "+strings.Join(view.Formats(), ", "))
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write to (default: standard output)")
	cmd.Flags().StringVar(&figures, "figures", "",
		"directory to write every figure to, as SVG and as PNG, instead of a report")
	cmd.Flags().BoolVar(&trials, "trials", false, "with --format csv: a row for each trial")
	cmd.Flags().BoolVar(&all, "all", false, "with --format text: every metric")
	return cmd
}

// collectLess lets the heap of a process that reads records and ends grow before garbage is looked for: nearly all of
// it stays in use.
func collectLess() {
	const percent = 400
	debug.SetGCPercent(percent)
}

// figures writes the figures of a run and lists the files.
func (a *app) figures(dir, out string) error {
	collectLess()
	data, problems, err := report.Load(dir)
	if err != nil {
		return err
	}
	a.standing(data)
	names, err := view.Figures(out, data)
	for _, name := range names {
		fmt.Fprintln(a.Out, filepath.Join(out, name))
	}
	if err == nil && len(names) == 0 {
		fmt.Fprintf(a.Err, "nettoll: there are no measurements to draw\n")
	}
	a.problems(dir, problems)
	return err
}

// standing says on standard error what views for people begin with.
func (a *app) standing(data *report.Data) {
	for _, s := range data.Standing() {
		fmt.Fprintf(a.Err, "nettoll: %s\n", s)
	}
}

func (a *app) report(dir, format, file string, trials, all bool) (err error) {
	collectLess()
	data, problems, err := report.Load(dir)
	if err != nil {
		return err
	}
	out := a.Out
	o := a.textOptions()
	o.All = all
	if file != "" {
		f, err := os.Create(file)
		if err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		defer func() {
			if closeErr := f.Close(); err == nil {
				err = closeErr
			}
		}()
		out, o.Color = f, false
	}
	if format == "csv" { // has no place for it
		a.standing(data)
	}
	if trials {
		err = export.Trials(out, data)
	} else {
		err = a.writeReport(out, format, data, o)
	}
	a.problems(dir, problems)
	return err
}

// problems names the lines of the records that could not be used.
func (a *app) problems(dir string, problems []measure.Problem) {
	const most = 20 // a file that is something else altogether has one with every line
	for i, p := range problems {
		if i == most {
			fmt.Fprintf(a.Err, "nettoll: records of %s: and %d more lines\n", dir, len(problems)-most)
			break
		}
		fmt.Fprintf(a.Err, "nettoll: records of %s: %v\n", dir, p)
	}
}
