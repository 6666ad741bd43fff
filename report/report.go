package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ErrUnknownFormat is wrapped by errors about a format that there is not.
var ErrUnknownFormat = errors.New("unknown format")

// Formats lists the formats that [Write] knows, the default first.
func Formats() []string { return []string{"text", "html", "markdown", "csv", "jsonl"} }

// Check returns an error that wraps [ErrUnknownFormat] and lists those known, unless the format is one of them.
func Check(format string) error {
	if slices.Contains(Formats(), format) {
		return nil
	}
	return fmt.Errorf("%w %q (known: %s)", ErrUnknownFormat, format, strings.Join(Formats(), ", "))
}

// Write writes a run in one of the formats. The options hold for text, HTML and Markdown.
func Write(w io.Writer, format string, d *Data, o Options) error {
	switch format {
	case "text":
		return Text(w, d.Run, d.Analysis, o)
	case "html":
		return HTML(w, d, o)
	case "markdown":
		return Markdown(w, d, o)
	case "csv":
		return CSV(w, d.Run, d.Analysis)
	case "jsonl":
		return JSONL(w, d.Run, d.Analysis)
	}
	return Check(format)
}
