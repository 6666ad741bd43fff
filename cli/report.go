package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/report"
)

func (a *app) reportCommand() *cobra.Command {
	var format, file string
	var trials, all bool
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Show a run again: as the table, as CSV, or as JSON lines",
		Long: `Reads the records of a run and shows them. It measures nothing and needs no privilege. A file that was cut short or damaged is
reported as far as it can be read; the rest is named.`,
		Example: `  nettoll report nettoll-default-20260102-030405
  nettoll report DIR --format csv -o result.csv
  nettoll report DIR --format csv --trials      a row for every single trial`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("nettoll report takes one argument, the directory of a run, got %d (see nettoll report --help)", len(args))}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := report.Check(format); err != nil {
				return usageError{err}
			}
			if trials && format != "csv" {
				return usageError{fmt.Errorf("--trials goes with --format csv, not %q", format)}
			}
			return a.report(args[0], format, file, trials, all)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "one of "+strings.Join(report.Formats(), ", "))
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write to (default: standard output)")
	cmd.Flags().BoolVar(&trials, "trials", false, "with --format csv: a row for each trial")
	cmd.Flags().BoolVar(&all, "all", false, "with --format text: every metric")
	return cmd
}

func (a *app) report(dir, format, file string, trials, all bool) (err error) {
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
	if trials {
		err = report.Trials(out, data.Run, data.Log)
	} else {
		err = report.Write(out, format, data, o)
	}
	const most = 20 // a file that is something else altogether has one with every line
	for i, p := range problems {
		if i == most {
			fmt.Fprintf(a.Err, "nettoll: records of %s: and %d more lines\n", dir, len(problems)-most)
			break
		}
		fmt.Fprintf(a.Err, "nettoll: records of %s: %v\n", dir, p)
	}
	return err
}
