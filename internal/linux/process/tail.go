package process

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

const (
	tailLines = 20   // last lines of a process
	tailWidth = 1024 // bytes of a line; longer lines are cut
)

// A Tail is an io.Writer that keeps the last 20 lines. If a Go program crashes, it keeps the 20 lines from the reason
// on, because stacks of other threads follow. The zero value is empty. It is safe for use by several goroutines.
type Tail struct {
	mu      sync.Mutex
	lines   []string
	crashed bool   // the first line has the reason
	open    []byte // the incomplete line
}

// Crash returns the line of a text with the reason why a Go program, or nettoll itself, crashes; "" if there is none.
// The texts are those of printpanics and fatalthrow (runtime/panic.go), newosproc (runtime/os_linux.go), mcache.refill
// and similar ones (runtime/malloc.go), and _cgo_try_pthread_create (runtime/cgo/gcc_libinit.go).
func Crash(text string) string {
	for line := range strings.Lines(text) {
		for _, start := range []string{
			"panic: ", "fatal error: ", "runtime: failed to create new OS thread", "runtime: out of memory",
			"runtime: cannot allocate memory", "runtime/cgo: pthread_create failed", "nettoll: internal error: ",
		} {
			if strings.HasPrefix(line, start) {
				return strings.TrimSuffix(line, "\n")
			}
		}
	}
	return ""
}

// Write never returns an error.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	for {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		t.open = append(t.open, line[:min(len(line), tailWidth-len(t.open))]...)
		if !ended {
			return n, nil
		}
		t.keep(string(t.open))
		t.open = t.open[:0]
		p = rest
	}
}

// keep adds a line.
func (t *Tail) keep(line string) {
	switch {
	case !t.crashed && Crash(line) != "":
		t.lines, t.crashed = []string{line}, true
		return
	case t.crashed && len(t.lines) == tailLines:
		return
	case len(t.lines) == tailLines:
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, line)
}

// String returns the lines; "" if there are none.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := Tail{lines: slices.Clone(t.lines), crashed: t.crashed}
	if len(t.open) > 0 {
		last.keep(string(t.open))
	}
	return strings.Join(last.lines, "\n")
}

// After describes what happened to a process, with its last output. After a crash, it begins with the reason; after
// reaching a limit, it is only that.
func (t *Tail) After(what string) string {
	lines := t.String()
	if lines == "" {
		return what
	}
	crash := Crash(lines)
	if reached := Reached(crash); reached != "" {
		return what + ": " + reached + ": " + crash
	}
	lines = strings.ReplaceAll(lines, "\n", "\n\t")
	if crash != "" {
		return what + ": " + lines
	}
	return what + "; its last lines:\n\t" + lines
}
