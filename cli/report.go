package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
	"github.com/nettoll/nettoll/report/view"
	"github.com/nettoll/nettoll/suite"
)

// reporting implements `report`: it shows the records of a run, with the sections of its suite.
type reporting struct {
	Streams
	library
}

func (r reporting) command() *cobra.Command {
	var figures string
	out := outputFlags{
		formats: append(view.Formats(), "junit"), to: "file to write to (default: standard output)", figures: true,
	}
	var direct, only []string
	var width int
	var trials, all bool
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Show the results of a run: as a table, a page, Markdown, figures, CSV or JSON lines",
		Long: `Reads the records of a run and shows the results. It measures nothing and needs no privilege. From a damaged or
truncated file it uses what it can read, and it names the lines that it cannot use.

The page (--output html) is one file without external references: you can mail it, put it on a server, or print it.
nettoll run writes it into the run directory as report.html.`,
		Example: `  nettoll report nettoll-default-20260102-030405
  nettoll report DIR --output html -o page.html
  nettoll report DIR --output markdown          to paste into an issue
  nettoll report DIR --direct macvlan:bridge    macvlan compared with bridge, in the same blocks
  nettoll report DIR --figures figures          every figure as SVG and as PNG
  nettoll report DIR --figures figures --only overview,curve --width 1600 --output svg,png,pdf
  nettoll report DIR --output csv -o result.csv
  nettoll report DIR --output csv --trials      a row for every single trial`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("nettoll report takes one argument, the directory of a run, got %d (see nettoll "+
					"report --help)", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("figures") {
				p, err := pictures(cmd, &out, only, width)
				switch {
				case err != nil:
					return usageError{err}
				case figures == "":
					return usageError{errors.New("--figures needs the name of a directory")}
				}
				return r.figures(args[0], figures, p)
			}
			for _, name := range []string{"only", "width"} {
				if cmd.Flags().Changed(name) {
					return usageError{fmt.Errorf("--%s is about figures: it needs --figures DIR", name)}
				}
			}
			format, err := out.choose(cmd)
			if err != nil {
				return err
			}
			if trials && format != "csv" {
				return usageError{fmt.Errorf("--trials needs --output csv, got %q", format)}
			}
			out.note(cmd)
			return r.report(args[0], format, out.file, direct, trials, all)
		},
	}
	out.register(cmd)
	cmd.Flags().StringArrayVar(&direct, "direct", nil, "STACK:STACK: compare two stacks directly, such as macvlan:bridge;"+
		" may be given more than once (default: all stacks of groups with few)")
	cmd.Flags().StringVar(&figures, "figures", "", "directory to write every figure to, instead of a report")
	cmd.Flags().StringSliceVar(&only, "only", nil, "with --figures: write only these kinds ("+
		strings.Join(view.FigureKinds(), ", ")+") or figures, by their file names without the ending")
	cmd.Flags().IntVar(&width, "width", 0, "with --figures: their width, in pixels of PNG and CSS pixels of SVG and "+
		"PDF (default: 920 and 460)")
	cmd.Flags().BoolVar(&trials, "trials", false, "with --output csv: a row for each trial")
	cmd.Flags().BoolVar(&all, "all", false, "with --output text: every metric")
	return cmd
}

// collectLess makes garbage collection rarer in a process that reads records and ends. Nearly all of its heap stays in
// use.
func collectLess() {
	const percent = 400
	debug.SetGCPercent(percent)
}

// The widths of figures that --width accepts.
const narrowest, widest = 100, 10000

// pictures reads the flags that choose which figures are written, their formats and their width.
func pictures(cmd *cobra.Command, out *outputFlags, only []string, width int) (p view.Pictures, err error) {
	flags := cmd.Flags()
	for _, other := range []string{"to", "direct", "trials", "all"} {
		if flags.Changed(other) {
			return p, fmt.Errorf("--figures writes figures and no report: it excludes --%s", other)
		}
	}
	format, by, err := out.given(cmd)
	if err != nil {
		return p, err
	}
	if by != "" {
		for f := range strings.SplitSeq(format, ",") {
			f = strings.TrimSpace(f)
			if err := view.CheckFigures(f); err != nil {
				return p, err
			}
			if !slices.Contains(p.Formats, f) {
				p.Formats = append(p.Formats, f)
			}
		}
	}
	if flags.Changed("only") {
		if len(only) == 0 {
			return p, fmt.Errorf("--only needs the names of figures (known: %s)", strings.Join(view.FigureKinds(), ", "))
		}
		for _, name := range only {
			p.Only = append(p.Only, strings.TrimSpace(name))
		}
	}
	if flags.Changed("width") && (width < narrowest || width > widest) {
		return p, fmt.Errorf("--width %d is out of range (valid: %d to %d)", width, narrowest, widest)
	}
	p.Width = float64(width)
	return p, nil
}

// figures writes the figures of a run and lists the files.
func (r reporting) figures(dir, out string, p view.Pictures) error {
	collectLess()
	data, problems, err := report.Load(dir)
	if err != nil {
		return err
	}
	r.standing(data)
	names, err := view.Figures(out, data, p, r.sections(data.Run, data.Log, data.Analysis)...)
	if errors.Is(err, view.ErrUnknownFigure) {
		return usageError{err}
	}
	for _, name := range names {
		fmt.Fprintln(r.Out, filepath.Join(out, name))
	}
	switch {
	case err != nil || len(names) > 0:
	case p.Only != nil:
		fmt.Fprintf(r.Err, "nettoll: the run has no figures that match --only (%s)\n", strings.Join(p.Only, ", "))
	default:
		fmt.Fprintf(r.Err, "nettoll: there are no measurements to draw\n")
	}
	r.problems(dir, problems)
	return err
}

// standing prints on standard error what views for people begin with.
func (r reporting) standing(data *report.Data) {
	for _, s := range data.Standing() {
		fmt.Fprintf(r.Err, "nettoll: %s\n", s)
	}
}

func (r reporting) report(dir, format, file string, direct []string, trials, all bool) (err error) {
	collectLess()
	data, problems, err := report.Load(dir)
	if err != nil {
		return err
	}
	for _, text := range direct {
		pair, err := data.ParsePair(text)
		if err != nil {
			return usageError{fmt.Errorf("--direct: %w", err)}
		}
		data.Pairs = append(data.Pairs, pair)
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
	if format == "csv" { // CSV has no place for it
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

// problems prints the lines of the records that could not be used.
func (r reporting) problems(dir string, problems []measure.Problem) {
	const most = 20 // in a file of another kind, every line is a problem
	for i, p := range problems {
		if i == most {
			fmt.Fprintf(r.Err, "nettoll: records of %s: and %d more lines\n", dir, len(problems)-most)
			break
		}
		fmt.Fprintf(r.Err, "nettoll: records of %s: %v\n", dir, p)
	}
}

// reproduced evaluates the claims of the paper whose suite was run. It is nil if the run has no suite, or one that this
// nettoll does not know.
func (r reporting) reproduced(run measure.Run, log *measure.Log, analysis measure.Analysis) *suite.Result {
	if run.Suite == "" {
		return nil
	}
	s, err := suite.Find(run.Suite, r.catalogue.Parts().Metrics)
	if err != nil { // another nettoll version has this suite; the rest of the report is still valid
		fmt.Fprintf(r.Err, "nettoll: the claims of the paper were not evaluated: %v\n", err)
		return nil
	}
	return s.Evaluate(run, log, analysis)
}

// sections returns what the suite of a run adds to its report.
func (r reporting) sections(run measure.Run, log *measure.Log, analysis measure.Analysis) []report.Section {
	if paper := r.reproduced(run, log, analysis); paper != nil {
		return paper.Sections()
	}
	return nil
}

// writeReport writes the report of a run in a format, with what its suite adds.
func (r reporting) writeReport(w io.Writer, format string, d *report.Data, o report.Options) error {
	if format == "json" { // an array of what jsonl has as lines
		return export.Array(w, func(lines io.Writer) error { return r.writeReport(lines, "jsonl", d, o) })
	}
	if format == "junit" {
		return export.JUnit(w, d)
	}
	var paper *suite.Result
	if format != "csv" { // CSV has no place for it
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
