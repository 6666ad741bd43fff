package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
)

// progress shows how far a run is: a bar on a terminal, a plain line now and then elsewhere. It is told between blocks only, so it
// costs the trials nothing.
type progress struct {
	w        io.Writer
	terminal bool
	started  time.Time
	last     time.Time
	shown    bool
}

const (
	barWidth   = 24
	plainEvery = 10 * time.Second
	barEvery   = 200 * time.Millisecond
)

func newProgress(w io.Writer, r *experiment.Resolved) *progress {
	p := &progress{w: w, started: time.Now(), last: time.Now()}
	if f, ok := w.(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	labs := len(r.Labs)
	fmt.Fprintf(w, "measuring %d cells in %d labs for up to %v\n", len(r.Cells), labs, r.Experiment.Design.Time)
	return p
}

func (p *progress) observe(at control.Progress) {
	every := plainEvery
	if p.terminal {
		every = barEvery
	}
	if time.Since(p.last) < every && (at.Phase == "measure" || !p.terminal) {
		return
	}
	p.last = time.Now()
	share := min(1, at.Measured.Seconds()/at.Budget.Seconds())
	rest := "?"
	if share > 0 {
		elapsed := time.Since(p.started)
		rest = time.Duration(float64(elapsed) * (1 - share) / share).Round(time.Second).String()
	}
	line := fmt.Sprintf("generation %d, block %d, %v of %v measured, at most %s left", at.Generation+1, at.Block,
		at.Measured.Round(100*time.Millisecond), at.Budget, rest)
	if at.Cells > 0 {
		line += fmt.Sprintf(", %d of %d cells precise enough", at.Precise, at.Cells)
	}
	if !p.terminal {
		fmt.Fprintln(p.w, line)
		return
	}
	full := int(share * barWidth)
	fmt.Fprintf(p.w, "\r\x1b[K[%s%s] %s", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), line)
	p.shown = true
}

// done removes the bar.
func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
