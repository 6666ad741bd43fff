package cli

import (
	"errors"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/nettoll/nettoll/report"
)

// Streams are the standard streams of a command. Colours and the width of text depend on Out if it is a terminal. `lab
// exec` needs files in all three.
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

// to writes to a file, or to standard output if path is "".
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
