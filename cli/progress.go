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

// progress shows how far a run is: as a bar on a terminal, otherwise as a line every few seconds. It is updated only
// between blocks, so it costs the trials nothing.
type progress struct {
	w        io.Writer
	terminal bool
	width    func() int // columns of the terminal, which may change; 0 if unknown
	now      func() time.Time
	started  time.Time
	last     time.Time
	shown    string // the line that the terminal shows now

	attacking bool // the run has begun to attack labs
}

const (
	plainEvery = 10 * time.Second
	barEvery   = 200 * time.Millisecond
	triedEvery = 3 * time.Second // between lines of doctor

	barWidth   = 24
	usualWidth = 80
)

// newLine returns progress on w that has not begun.
func newLine(w io.Writer) *progress {
	p := &progress{w: w, now: time.Now, width: func() int { return 0 }}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		p.terminal = true
		p.width = func() int {
			width, _, _ := term.GetSize(int(f.Fd())) // 0 if it is not known
			return width
		}
	}
	return p
}

func newProgress(w io.Writer, r *experiment.Resolved) *progress {
	p := newLine(w)
	d, f := r.Experiment.Design, r.Forecast(experiment.DefaultSpread)
	long := fmt.Sprintf("up to %v", d.Time)
	if f.Measuring > d.Time*11/10 {
		long = fmt.Sprintf("about %v instead of %v (minimum: %s)", round(f.Measuring), d.Time,
			several(d.Generations, "generation"))
	}
	long += fmt.Sprintf(", and about %v to build and remove everything %d times", round(f.Building), f.Generations)
	if f.Proving > 0 {
		long += fmt.Sprintf(", and up to %v to try who reaches whom", round(f.Proving))
	}
	if f.Attacking > 0 {
		long += fmt.Sprintf(", and about %v to attack the labs", round(f.Attacking))
	}
	p.begin(len(r.Cells), len(r.Labs), long)
	return p
}

func (p *progress) begin(cells, labs int, long string) {
	p.started = p.now()
	p.last = p.started
	fmt.Fprintf(p.w, "measuring %s in %s for %s\n", several(cells, "cell"), several(labs, "lab"), long)
}

// observe reports the progress of the run.
func (p *progress) observe(at control.Progress) {
	if at.Phase == "attack" {
		if !p.attacking { // the first line is about another thing than the last one
			p.attacking, p.last = true, time.Time{}
		}
		p.proving(at.Lab, at.Labs, at.ID, at.What)
		return
	}
	now := p.now()
	every := plainEvery
	if p.terminal {
		every = barEvery
	}
	if now.Sub(p.last) < every && (at.Phase == "measure" || !p.terminal) {
		return
	}
	p.last = now
	share, rest := p.estimate(at, now)
	if p.terminal {
		width := p.width()
		if width <= 0 {
			width = usualWidth
		}
		p.show(bar(at, share, rest, width-1)) // a full last column would begin a new line on some terminals
		return
	}
	left := ""
	if rest != "" {
		left = ", at most " + rest + " left"
	}
	fmt.Fprintf(p.w, "generation %d, block %d: %v of %v measured%s\n", at.Generation, at.Block,
		at.Measured.Round(100*time.Millisecond), at.Budget, strings.Join(append([]string{left}, known(at)...), ", "))
}

// estimate returns how much of the time is used, and how long the rest takes at this pace. The rest is "" before
// anything is measured. It is also "" when the time is used up and only required generations are missing.
func (p *progress) estimate(at control.Progress, now time.Time) (share float64, rest string) {
	if at.Budget > 0 {
		share = min(1, at.Measured.Seconds()/at.Budget.Seconds())
	}
	if share <= 0 || share == 1 {
		return share, ""
	}
	left := time.Duration(float64(now.Sub(p.started)) * (1 - share) / share)
	return share, left.Round(time.Second).String()
}

// known says how many comparisons need no more measuring, and how many more will not before the time is up.
func known(at control.Progress) []string {
	var list []string
	if at.Goals > 0 {
		list = append(list, fmt.Sprintf("%d of %d done", at.Closed, at.Goals))
	}
	if at.Expected > 0 {
		list = append(list, fmt.Sprintf("%d more expected", at.Expected))
	}
	return list
}

// tried shows how many of doctor's tries have ended, and which are running, oldest first.
func (p *progress) tried(n, all int, under []string) {
	const shown = 3
	line := fmt.Sprintf("tried %d of %d", n, all)
	if len(under) > 0 {
		line += ": now " + strings.Join(under[:min(len(under), shown)], ", ")
	}
	if more := len(under) - shown; more > 0 {
		line += fmt.Sprintf(", %d more", more)
	}
	if !p.terminal {
		fmt.Fprintln(p.w, line)
		return
	}
	width := p.width()
	if width <= 0 {
		width = usualWidth
	}
	p.show(line[:min(len(line), width-1)]) // the line is ASCII
}

// bar returns the line for a terminal with so many columns. If it is too long, bar first drops what matters least.
func bar(at control.Progress, share float64, rest string, width int) string {
	parts := []string{fmt.Sprintf("%3.0f %%", 100*share)}
	switch {
	case at.Phase == "build":
		parts = append(parts, fmt.Sprintf("building generation %d", at.Generation))
	case at.Phase == "remove":
		parts = append(parts, fmt.Sprintf("removing generation %d", at.Generation))
	case rest != "":
		parts = append(parts, "at most "+rest+" left")
	}
	parts = append(parts, known(at)...)
	if at.Phase == "measure" {
		parts = append(parts, fmt.Sprintf("generation %d, block %d", at.Generation, at.Block))
	}
	full := int(share * barWidth)
	drawn := "[" + strings.Repeat("=", full) + strings.Repeat(" ", barWidth-full) + "] "
	for len(parts) > 1 {
		text := strings.Join(parts, ", ")
		if len(drawn)+len(text) <= width {
			return drawn + text
		}
		if len(parts) <= 2 && len(text) <= width {
			return text // the numbers matter more than the bar
		}
		parts = parts[:len(parts)-1]
	}
	return parts[0][:max(0, min(len(parts[0]), width))]
}

// show replaces the line that the terminal shows.
func (p *progress) show(line string) {
	if line == p.shown {
		return
	}
	fmt.Fprint(p.w, "\r\x1b[K"+line)
	p.shown = line
}

// log prints a line above the bar.
func (p *progress) log(line string) {
	shown := p.shown
	p.done()
	fmt.Fprintln(p.w, line)
	if shown != "" {
		p.show(shown)
	}
}

// done removes the bar.
func (p *progress) done() {
	if p.shown != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = ""
	}
}

func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
