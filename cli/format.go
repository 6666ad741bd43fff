package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/report/view"
)

// formatFlag is --format, the format of a command's data. Commands that write files choose the file with -o.
type formatFlag struct {
	format string
	asJSON bool // --json, which is older than --format
	known  []string
}

// dataFormats lists the formats of commands that print data of their own, the default first.
func dataFormats() []string { return []string{"text", "json", "jsonl", "csv"} }

// register adds --format and, for older scripts, --json.
func (f *formatFlag) register(cmd *cobra.Command) {
	f.known = dataFormats()
	cmd.Flags().StringVar(&f.format, "format", f.known[0], "one of "+strings.Join(f.known, ", "))
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "the same as --format json")
}

// chosen returns the format that the flags ask for.
func (f *formatFlag) chosen(cmd *cobra.Command) (string, error) {
	if !slices.Contains(f.known, f.format) {
		return "", usageError{fmt.Errorf("--format: %w", &experiment.UnknownError{
			Kind: "format", Name: f.format, Known: f.known,
		})}
	}
	if f.asJSON {
		if cmd.Flags().Changed("format") && f.format != "json" {
			return "", usageError{fmt.Errorf("--json and --format %s exclude each other", f.format)}
		}
		return "json", nil
	}
	return f.format, nil
}

// tellFormat explains -o to a user who gave it the name of a format.
func tellFormat(cmd *cobra.Command, stderr io.Writer, file string) {
	all := append(view.Formats(), view.CompareFormats()...)
	if slices.Contains(all, file) && !cmd.Flags().Changed("format") {
		fmt.Fprintf(stderr, "nettoll: -o %s names the output; --format %s chooses the format\n", file, file)
	}
}

// sheet is data for scripts: JSON lines are written from objects, and CSV from columns and rows.
type sheet struct {
	columns []string
	rows    [][]string
	objects []any
}

// line is an object of JSON lines with a type, for output with objects of several types.
type line struct {
	kind  string
	value any
}

// MarshalJSON writes the value, which must be an object, with the key "type" before its other keys.
func (l line) MarshalJSON() ([]byte, error) {
	text, err := plainObject(l.value)
	if err != nil {
		return nil, err
	}
	kind, err := json.Marshal(l.kind)
	if err != nil {
		return nil, err
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, fmt.Errorf("a line of type %s is not an object: %.40s", kind, text)
	}
	comma := ","
	if bytes.Equal(text, []byte("{}")) {
		comma = ""
	}
	return slices.Concat([]byte(`{"type":`), kind, []byte(comma), text[1:]), nil
}

// plainObject returns a value as JSON in one line, without escapes for HTML.
func plainObject(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// write writes a sheet as jsonl or csv.
func (s sheet) write(w io.Writer, format string) error {
	if format == "csv" {
		out := csv.NewWriter(w)
		err := out.Write(s.columns)
		if err == nil {
			err = out.WriteAll(s.rows) // flushes
		}
		return errors.Join(err, out.Error())
	}
	for _, o := range s.objects {
		text, err := plainObject(o)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return nil
}
