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

// ErrUnknownFormat is wrapped by errors about unknown formats.
var ErrUnknownFormat = errors.New("unknown format")

// Formats lists the formats of [Write], the default first.
func Formats() []string { return []string{"text", "html", "markdown", "csv", "jsonl", "json"} }

// Check returns an error if the format is not one of [Formats]. It wraps [ErrUnknownFormat] and lists the valid ones.
func Check(format string) error { return check(format, Formats()) }

// Write writes a run in one of the formats. The options apply to text, HTML and Markdown.
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
	case "json":
		return export.Array(w, func(lines io.Writer) error { return export.JSONL(lines, d) })
	}
	return Check(format)
}

// CompareFormats lists the formats of [WriteCompared], the default first.
func CompareFormats() []string {
	return []string{"text", "html", "markdown", "csv", "jsonl", "json", "junit"}
}

// CheckCompared returns an error if the format is not one of [CompareFormats]. It wraps [ErrUnknownFormat] and lists
// the valid ones.
func CheckCompared(format string) error { return check(format, CompareFormats()) }

func check(format string, known []string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return fmt.Errorf("%w %q (known: %s)", ErrUnknownFormat, format, strings.Join(known, ", "))
}

// WriteCompared writes a comparison in one of the formats: the primary metric of each cell, or all of its metrics with
// Options.All. Color and Width apply to text alone.
func WriteCompared(w io.Writer, format string, l report.Comparisons, o report.Options) error {
	switch format {
	case "text":
		return text.WriteCompared(w, l, o)
	case "html":
		return page.WriteCompared(w, l, o.All)
	case "markdown":
		return markdown.WriteCompared(w, l, o.All)
	case "csv":
		return export.ComparedCSV(w, l, o.All)
	case "jsonl":
		return export.ComparedJSONL(w, l, o.All)
	case "json":
		return export.ComparedJSON(w, l, o.All)
	case "junit":
		return export.ComparedJUnit(w, l, o.All)
	}
	return CheckCompared(format)
}
