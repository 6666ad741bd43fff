package guest

import (
	"strconv"
	"strings"
	"sync"
)

// A console receives the messages of a guest's kernel: it is an io.Writer that keeps the last lines and looks for those
// of init.sh. The zero value is ready for use. It is safe for use by several goroutines.
type console struct {
	mu       sync.Mutex
	lines    []string
	line     []byte        // an incomplete line
	upped    chan struct{} // closed when the guest is up; made when first asked for
	isUp     bool
	ended    bool
	status   int
	panicked string // the reason; "" if it has not panicked
}

const (
	// marker is the beginning of init.sh's messages in the kernel log.
	marker = "nettoll-guest: "
	// panicking is the beginning of the kernel's last message (panic(), kernel/panic.c).
	panicking = "Kernel panic - not syncing: "
	// recent is how many lines are kept: a panic has about 60 (registers, code, calls), and twice as many after an
	// oops.
	recent = 120
	// longest is how much of a line is kept, in bytes.
	longest = 1024
)

// Write never returns an error.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range p {
		switch {
		case b == '\n':
			c.read(string(c.line))
			c.line = c.line[:0]
		case b >= ' ' && len(c.line) < longest:
			c.line = append(c.line, b)
		}
	}
	return len(p), nil
}

// read handles a line. The caller holds the lock.
func (c *console) read(line string) {
	if len(c.lines) == recent {
		c.lines = append(c.lines[:0], c.lines[1:]...)
	}
	c.lines = append(c.lines, line)
	// A record of the kernel's log begins with the time, "[   12.345678] ".
	stamp, said, record := strings.Cut(line, "] ")
	if !record || !strings.HasPrefix(stamp, "[") {
		return
	}
	if why, is := strings.CutPrefix(said, panicking); is && c.panicked == "" {
		c.panicked = why
		return
	}
	said, ours := strings.CutPrefix(said, marker)
	if !ours {
		return
	}
	if said == "up" && !c.isUp {
		c.isUp = true
		close(c.wake())
	}
	if text, is := strings.CutPrefix(said, "exit "); is && c.isUp && !c.ended {
		if status, err := strconv.ParseUint(text, 10, 8); err == nil {
			c.ended, c.status = true, int(status)
		}
	}
}

// wake returns the channel of up. The caller holds the lock.
func (c *console) wake() chan struct{} {
	if c.upped == nil {
		c.upped = make(chan struct{})
	}
	return c.upped
}

// up returns a channel that is closed when the guest is about to run its script.
func (c *console) up() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wake()
}

// result returns the exit status of the script if it has ended, and the reason of a kernel panic, "" if there was none.
func (c *console) result() (status int, ended bool, panicked string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status, c.ended, c.panicked
}

// String returns the last lines.
func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := strings.Join(c.lines, "\n")
	if len(c.line) > 0 {
		said += "\n" + string(c.line)
	}
	return strings.TrimPrefix(said, "\n")
}
