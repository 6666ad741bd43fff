package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
	"github.com/nettoll/nettoll/report/view"
	"github.com/nettoll/nettoll/suite"
)

// reporting shows what the records of a run say, and what its suite adds to that.
type reporting struct {
	Streams
	library
}

func (r reporting) command() *cobra.Command {
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
				return r.report(args[0], format, file, trials, all)
			}
			for _, other := range []string{"format", "output", "trials", "all"} {
				if cmd.Flags().Changed(other) {
					return usageError{fmt.Errorf("--figures writes figures and no report: it excludes --%s", other)}
				}
			}
			if figures == "" {
				return usageError{errors.New("--figures needs the name of a directory")}
			}
			return r.figures(args[0], figures)
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
func (r reporting) figures(dir, out string) error {
	collectLess()
	data, problems, err := report.Load(dir)
	if err != nil {
		return err
	}
	r.standing(data)
	names, err := view.Figures(out, data)
	for _, name := range names {
		fmt.Fprintln(r.Out, filepath.Join(out, name))
	}
	if err == nil && len(names) == 0 {
		fmt.Fprintf(r.Err, "nettoll: there are no measurements to draw\n")
	}
	r.problems(dir, problems)
	return err
}

// standing says on standard error what views for people begin with.
func (r reporting) standing(data *report.Data) {
	for _, s := range data.Standing() {
		fmt.Fprintf(r.Err, "nettoll: %s\n", s)
	}
}

func (r reporting) report(dir, format, file string, trials, all bool) (err error) {
	collectLess()
	data, problems, err := report.Load(dir)
	if err != nil {
		return err
	}
	out := r.Out
	o := r.textOptions()
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
		r.standing(data)
	}
	if trials {
		err = export.Trials(out, data)
	} else {
		err = r.writeReport(out, format, data, o)
	}
	r.problems(dir, problems)
	return err
}

// problems names the lines of the records that could not be used.
func (r reporting) problems(dir string, problems []measure.Problem) {
	const most = 20 // a file that is something else altogether has one with every line
	for i, p := range problems {
		if i == most {
			fmt.Fprintf(r.Err, "nettoll: records of %s: and %d more lines\n", dir, len(problems)-most)
			break
		}
		fmt.Fprintf(r.Err, "nettoll: records of %s: %v\n", dir, p)
	}
}

// reproduced returns what a run says of the paper whose suite it is, nil if it is none's.
func (r reporting) reproduced(run measure.Run, log *measure.Log, analysis measure.Analysis) *suite.Result {
	if run.Suite == "" {
		return nil
	}
	s, err := suite.Find(run.Suite, r.catalogue.Parts().Metrics)
	if err != nil { // of another nettoll: the rest of the report is worth as much as before
		fmt.Fprintf(r.Err, "nettoll: the claims of the paper were not evaluated: %v\n", err)
		return nil
	}
	return s.Evaluate(run, log, analysis)
}

// sections are what a suite adds to the report of its runs.
func (r reporting) sections(run measure.Run, log *measure.Log, analysis measure.Analysis) []report.Section {
	if paper := r.reproduced(run, log, analysis); paper != nil {
		return paper.Sections()
	}
	return nil
}

// writeReport writes a run in a format, with what its suite adds to it.
func (r reporting) writeReport(w io.Writer, format string, d *report.Data, o report.Options) error {
	var paper *suite.Result
	if format != "csv" { // has no place for it
		paper = r.reproduced(d.Run, d.Log, d.Analysis)
	}
	if paper == nil {
		return view.Write(w, format, d, o)
	}
	o.Sections = paper.Sections()
	if err := view.Write(w, format, d, o); err != nil || format != "jsonl" {
		return err
	}
	return paper.JSONL(w)
}
