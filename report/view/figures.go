package view

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux/owned"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/chart"
	"github.com/nettoll/nettoll/report/figure"
	"github.com/nettoll/nettoll/report/page"
)

// sharp is the number of pixels of a PNG for each CSS pixel, if no width is given.
const sharp = 2

// Pictures says which figures to write, and how.
type Pictures struct {
	Only    []string // kinds of figures, or names of single ones; nil: all of them
	Formats []string // in pixels of a PNG and CSS pixels of the others; 0: their own width
	Width   float64  // in pixels of a PNG and CSS pixels of the others; 0: as they are drawn
}

// FigureFormats lists the formats of figures.
func FigureFormats() []string { return []string{"svg", "png", "pdf"} }

// FigureKinds lists the kinds of figures.
func FigureKinds() []string { return chart.Kinds() }

// CheckFigures returns an error if the format is not one of [FigureFormats]. It wraps [ErrUnknownFormat] and lists the
// valid ones.
func CheckFigures(format string) error {
	if slices.Contains(FigureFormats(), format) {
		return nil
	}
	return fmt.Errorf("%w %q of figures (known: %s)", ErrUnknownFormat, format, strings.Join(FigureFormats(), ", "))
}

// ErrUnknownFigure is wrapped by errors about a figure that no run has, or that this run does not have.
var ErrUnknownFigure = errors.New("unknown figure")

// Figures writes the figures of a run into a directory. It returns the names of the files in the order of the report,
// with those of the caller's sections at the end. The directory is created if necessary; existing files are replaced.
// If a kind, name or format is unknown, the error wraps [ErrUnknownFigure] or [ErrUnknownFormat], and nothing is
// written.
func Figures(dir string, d *report.Data, p Pictures, more ...report.Section) ([]string, error) {
	all := chart.Draw(d.Read(), d.Log).All
	for _, s := range more {
		for _, b := range s.Blocks {
			if b.Plot != nil {
				all = append(all, chart.Redraw(b.Plot))
			}
		}
	}
	return p.put(dir, all, d.Run.Started)
}

// put writes the chosen figures into a directory.
func (p Pictures) put(dir string, all []figure.Figure, when time.Time) ([]string, error) {
	for _, format := range p.Formats {
		if err := CheckFigures(format); err != nil {
			return nil, err
		}
	}
	list, err := p.chosen(all)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("write figures: %w", err)
	}
	formats := p.Formats
	if formats == nil {
		formats = []string{"svg", "png"}
	}
	var names []string
	for _, f := range list {
		for _, format := range formats {
			name := f.Name + "." + format
			if err := owned.Replace(dir, name, func(w io.Writer) error {
				return p.write(w, f, format, when)
			}); err != nil {
				return names, fmt.Errorf("write figures: %s: %w", name, err)
			}
			names = append(names, name)
		}
	}
	return names, nil
}

// write writes a figure in one format.
func (p Pictures) write(w io.Writer, f figure.Figure, format string, when time.Time) error {
	scale := 1.0
	if p.Width > 0 {
		scale = p.Width / f.Width
	}
	switch format {
	case "png":
		if p.Width == 0 {
			scale = sharp
		}
		return f.WritePNG(w, scale)
	case "pdf":
		return f.WritePDF(w, scale, when)
	}
	return f.WriteSVG(w, scale)
}

// chosen returns the figures that were asked for.
func (p Pictures) chosen(all []figure.Figure) ([]figure.Figure, error) {
	if p.Only == nil {
		return all, nil
	}
	var names []string
	for _, f := range all {
		names = append(names, f.Name)
	}
	for _, name := range p.Only {
		if !slices.Contains(chart.Kinds(), name) && !slices.Contains(names, name) {
			known := "known: " + strings.Join(chart.Kinds(), ", ")
			if len(names) > 0 {
				known += "; of this run: " + strings.Join(names, ", ")
			}
			return nil, fmt.Errorf("%w %q (%s)", ErrUnknownFigure, name, known)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(f figure.Figure) bool {
		return !slices.Contains(p.Only, f.Kind) && !slices.Contains(p.Only, f.Name)
	}), nil
}

// PageFile is the name of the page in a run directory.
const PageFile = "report.html"

// WritePage writes the page of a run into its directory, and replaces an existing one.
func WritePage(dir string, d *report.Data, o report.Options) error {
	if err := owned.Replace(dir, PageFile, func(w io.Writer) error { return page.Write(w, d, o) }); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
