package cli

import (
	"errors"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/nettoll/nettoll/report"
)

// Streams are what a command reads from and prints to.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

func (s Streams) textOptions() report.Options {
	o := report.Options{Width: 100}
	if f, ok := s.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		o.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			o.Width = width
		}
	}
	return o
}

// to writes to a file, or to standard output where its name is "".
func (s Streams) to(path string, show func(io.Writer) error) error {
	if path == "" {
		return show(s.Out)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(show(f), f.Close())
}
