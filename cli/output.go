package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/report/view"
)

// outputFlags are the flags of a command that prints data, the same at every command: --output chooses the format, and
// -o (--to), if the command has it, the file or directory to write to.
//
// Older names keep working. --format is --output, and --json is --output json. --output once was the long name of -o: a
// value that is not a format is still taken for one.
type outputFlags struct {
	formats []string // the default first
	to      string   // the meaning of -o, for help; "" if the command has none
	figures bool     // with --figures, --output has the formats of figures

	output, older string // of --output and --format
	asJSON        bool
	file          string // of -o
}

// dataFormats lists the formats of commands that print data of their own, the default first.
func dataFormats() []string { return []string{"text", "json", "jsonl", "csv"} }

// register adds the flags. Without formats, those of [dataFormats] are valid.
func (f *outputFlags) register(cmd *cobra.Command) {
	if f.formats == nil {
		f.formats = dataFormats()
	}
	usage, also := "format: "+strings.Join(f.formats, ", "), slices.Clone(f.formats)
	if f.figures {
		usage += "; with --figures some of " + strings.Join(view.FigureFormats(), ", ") + " (default there: svg,png)"
		also = append(also, view.FigureFormats()...)
	}
	flags := cmd.Flags()
	flags.StringVar(&f.output, "output", f.formats[0], usage)
	flags.StringVar(&f.older, "format", "", "the same as --output, for older scripts")
	for _, name := range []string{"output", "format"} {
		_ = cmd.RegisterFlagCompletionFunc(name, single(words(also))) // it fails only if there is no such flag
	}
	if f.to != "" {
		flags.StringVarP(&f.file, "to", "o", "", f.to)
		return
	}
	flags.BoolVar(&f.asJSON, "json", false, "the same as --output json, for older scripts")
}

// registerTo adds -o to a command whose output has one format. Its older long name keeps working.
func registerTo(cmd *cobra.Command, file *string, usage string) {
	cmd.Flags().StringVarP(file, "to", "o", "", usage)
	cmd.Flags().StringVar(file, "output", "", "the same as --to")
	_ = cmd.Flags().MarkHidden("output") // it fails only if there is no such flag
}

// choose returns the format that the flags ask for, the default if none does. It also fills the file of -o.
func (f *outputFlags) choose(cmd *cobra.Command) (string, error) {
	if f.namesFile(cmd) {
		f.file = f.output
	}
	format, by, err := f.given(cmd)
	switch {
	case err != nil:
		return "", err
	case by == "":
		return f.formats[0], nil
	case slices.Contains(f.formats, format):
		return format, nil
	}
	err = fmt.Errorf("--%s: %w", by, &experiment.UnknownError{Kind: "format", Name: format, Known: f.formats})
	if f.figures && view.CheckFigures(format) == nil {
		err = fmt.Errorf("%w (hint: --figures DIR --output %s writes figures in this format)", err, format)
	}
	return "", usageError{err}
}

// given returns the format as the user wrote it, and the name of its flag; "" if no flag gives one.
func (f *outputFlags) given(cmd *cobra.Command) (format, by string, err error) {
	for _, flag := range []struct{ name, value string }{
		{"output", f.output}, {"format", f.older}, {"json", "json"},
	} {
		switch {
		case !cmd.Flags().Changed(flag.name), flag.name == "output" && f.namesFile(cmd), flag.name == "json" && !f.asJSON:
			continue
		case by != "" && format != flag.value:
			return "", "", usageError{fmt.Errorf("--%s %s and --%s %s exclude each other", by, format, flag.name, flag.value)}
		}
		format, by = flag.value, flag.name
	}
	return format, by, nil
}

// namesFile reports whether the value of --output names what to write to, as it did before it chose the format.
func (f *outputFlags) namesFile(cmd *cobra.Command) bool {
	flags := cmd.Flags()
	return f.to != "" && flags.Changed("output") && !flags.Changed("to") && !isFormat(f.output) &&
		!(f.figures && flags.Changed("figures"))
}

// isFormat reports whether a word is a format of some command.
func isFormat(word string) bool {
	return slices.Contains(slices.Concat(dataFormats(), view.Formats(), view.CompareFormats(), view.FigureFormats()), word)
}

// note explains names that are easily taken for each other: a format after -o, and a file after --output.
func (f *outputFlags) note(cmd *cobra.Command) {
	say := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), "nettoll: "+format+"\n", args...) }
	switch _, by, _ := f.given(cmd); {
	case f.namesFile(cmd) && !strings.ContainsAny(f.output, "./"):
		say("--output %s names the output, as -o %s does (formats: %s%s)", f.output, f.output, strings.Join(f.formats, ", "),
			part.Meant(f.output, f.formats))
	case cmd.Flags().Changed("to") && isFormat(f.file) && by == "":
		say("-o %s names the output; --output %s chooses the format", f.file, f.file)
	}
}
