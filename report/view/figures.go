package view

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/chart"
	"github.com/nettoll/nettoll/report/page"
)

// sharp is how many pixels of a PNG a CSS pixel is.
const sharp = 2

// Figures writes every figure of a run into a directory, each as SVG and as PNG, and returns the names of the files in
// the order of the report. The directory is made if there is none; files of these names are replaced.
func Figures(dir string, d *report.Data) ([]string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("write figures: %w", err)
	}
	var names []string
	for _, f := range chart.Draw(report.Read(d.Run, d.Analysis), d.Log).All {
		for _, form := range []struct {
			ending string
			write  func(io.Writer) error
		}{{".svg", f.WriteSVG}, {".png", func(w io.Writer) error { return f.WritePNG(w, sharp) }}} {
			name := f.Name + form.ending
			if err := writeFile(filepath.Join(dir, name), form.write); err != nil {
				return names, fmt.Errorf("write figures: %w", err)
			}
			names = append(names, name)
		}
	}
	return names, nil
}

// PageFile is the name of the page in a run directory.
const PageFile = "report.html"

// WritePage writes the page of a run into a file, which it replaces.
func WritePage(path string, d *report.Data, o report.Options) error {
	if err := writeFile(path, func(w io.Writer) error { return page.Write(w, d, o) }); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path)) // half a page is worse than none
	}
	return nil
}
