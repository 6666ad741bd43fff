package view

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
	"github.com/nettoll/nettoll/report/markdown"
	"github.com/nettoll/nettoll/report/page"
	"github.com/nettoll/nettoll/report/text"
)

// ErrUnknownFormat is wrapped by errors about a format that there is not.
var ErrUnknownFormat = errors.New("unknown format")

// Formats lists the formats that [Write] knows, the default first.
func Formats() []string { return []string{"text", "html", "markdown", "csv", "jsonl"} }

// Check returns an error that wraps [ErrUnknownFormat] and lists those known, unless the format is one of them.
func Check(format string) error { return check(format, Formats()) }

// Write writes a run in one of the formats. The options hold for text, HTML and Markdown.
func Write(w io.Writer, format string, d *report.Data, o report.Options) error {
	switch format {
	case "text":
		return text.Write(w, d, o)
	case "html":
		return page.Write(w, d, o)
	case "markdown":
		return markdown.Write(w, d, o)
	case "csv":
		return export.CSV(w, d)
	case "jsonl":
		return export.JSONL(w, d)
	}
	return Check(format)
}

// CompareFormats lists the formats that [WriteCompared] knows, the default first.
func CompareFormats() []string { return []string{"text", "markdown", "csv", "json"} }

// CheckCompared returns an error that wraps [ErrUnknownFormat] and lists those known, unless the format is one of
// them.
func CheckCompared(format string) error { return check(format, CompareFormats()) }

func check(format string, known []string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return fmt.Errorf("%w %q (known: %s)", ErrUnknownFormat, format, strings.Join(known, ", "))
}

// WriteCompared writes what has changed, in one of the formats: of each cell its primary metric, or all of them if the
// options say so. Colour and width hold for text alone.
func WriteCompared(w io.Writer, format string, c *report.Compared, o report.Options) error {
	switch format {
	case "text":
		return text.WriteCompared(w, c, o)
	case "markdown":
		return markdown.WriteCompared(w, c, o.All)
	case "csv":
		return export.ComparedCSV(w, c, o.All)
	case "json":
		return export.ComparedJSON(w, c, o.All)
	}
	return CheckCompared(format)
}
