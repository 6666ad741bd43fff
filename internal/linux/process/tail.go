package process

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

const (
	tailLines = 20   // of what a process said last
	tailWidth = 1024 // bytes of a line; what is longer is cut
)

// A Tail is an io.Writer that keeps the last 20 lines. The zero value is empty. It is safe for use by several goroutines.
type Tail struct {
	mu    sync.Mutex
	lines []string
	open  []byte // the line that has not ended
}

// Write never fails.
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
		if len(t.lines) == tailLines {
			t.lines = append(t.lines[:0], t.lines[1:]...)
		}
		t.lines = append(t.lines, string(t.open))
		t.open = t.open[:0]
		p = rest
	}
}

// String returns the lines, "" if there are none.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	if len(t.open) > 0 {
		lines = append(slices.Clip(lines), string(t.open))
		lines = lines[max(0, len(lines)-tailLines):]
	}
	return strings.Join(lines, "\n")
}

// After says what happened to a process, and what it said last.
func (t *Tail) After(what string) string {
	lines := t.String()
	if lines == "" {
		return what
	}
	return what + "; its last lines:\n\t" + strings.ReplaceAll(lines, "\n", "\n\t")
}
