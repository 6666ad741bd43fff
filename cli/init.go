package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/experiment"
)

func initCommand(std Streams, lib library) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "init [EXAMPLE | suite:NAME]",
		Short: "Write a commented experiment to start from",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("nettoll init takes one example, got %q and %q", args[0], args[1])}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			name := experiment.DefaultExample
			if len(args) == 1 {
				name = args[0]
			}
			e, err := lib.example(name)
			if err != nil {
				return err
			}
			if file == "" {
				file = e.Name + ".yaml"
			}
			return writeExample(std.Out, e, file)
		},
	}
	all, err := experiment.Examples()
	lines := make([]string, len(all))
	for i, e := range all {
		lines[i] = fmt.Sprintf("  %-12s %s", e.Name, e.Summary)
		cmd.ValidArgs = append(cmd.ValidArgs, e.Name)
	}
	cmd.ValidArgs = append(cmd.ValidArgs, suites()...)
	if err == nil {
		cmd.Long = `Writes a commented experiment for you to change and run. It does not overwrite a file.

Examples:
` + strings.Join(lines, "\n") + `

You can change the experiments of suites in the same way. They are compared with their paper only as
` + strings.Join(suites(), ", ") + `.`
	}
	cmd.Long += `

The first line of the file names its schema for editors: nettoll schema > ` + schemaFile + ` writes that.`
	cmd.Example = `  nettoll init                       writes default.yaml
  nettoll init reference             every key, explained
  nettoll init default -o - | less   to standard output
  nettoll plan default.yaml          what it would do`
	registerTo(cmd, &file, "file to write to, - for standard output (default EXAMPLE.yaml)")
	return cmd
}

// schemaFile is the file name of the schema in the first line of an example, for editors.
const schemaFile = "nettoll.schema.json"

func writeExample(out io.Writer, e experiment.Example, file string) (err error) {
	e.Text = append([]byte("# yaml-language-server: $schema="+schemaFile+"\n"), e.Text...)
	if file == "-" {
		_, err := out.Write(e.Text)
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return usageError{fmt.Errorf("%q exists and is not overwritten (name another with -o)", file)}
	}
	if err != nil {
		return fmt.Errorf("write experiment: %w", err)
	}
	_, err = f.Write(e.Text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write experiment: %w", err)
	}
	_, err = fmt.Fprintf(out, "wrote %s; nettoll plan %s shows what it would do, nettoll run %s runs it\n", file, file,
		file)
	return err
}
