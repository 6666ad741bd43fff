package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// ErrUnknownFormat is wrapped by errors about a format that there is not.
var ErrUnknownFormat = errors.New("unknown format")

// Formats lists the formats that [Write] knows, the default first.
func Formats() []string { return []string{"text", "csv", "jsonl"} }

// Check returns an error that wraps [ErrUnknownFormat] and lists those known, unless the format is one of them.
func Check(format string) error {
	if slices.Contains(Formats(), format) {
		return nil
	}
	return fmt.Errorf("%w %q (known: %s)", ErrUnknownFormat, format, strings.Join(Formats(), ", "))
}

// Write writes a run in one of the formats. The options hold for text alone.
func Write(w io.Writer, format string, run measure.Run, a measure.Analysis, o Options) error {
	switch format {
	case "text":
		return Text(w, run, a, o)
	case "csv":
		return CSV(w, run, a)
	case "jsonl":
		return JSONL(w, run, a)
	}
	return Check(format)
}
