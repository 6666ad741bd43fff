package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
)

// The output of a run fits a terminal of any width. It is coloured unless NO_COLOR or the terminal forbids it.
func TestTerminal(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	color := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	for _, c := range []struct {
		columns uint16
		env     string
		bar     bool
		color   bool
	}{
		{columns: 100, bar: true, color: true},
		{columns: 30, env: "NO_COLOR=1"},
		{columns: 100, env: "TERM=dumb"},
	} {
		t.Run(fmt.Sprintf("%d columns %s", c.columns, c.env), func(t *testing.T) {
			cmd := exec.Command(os.Getenv(programEnv), "run", "-v", "-o", t.TempDir(), "--network", "bridge", "--time", "300ms",
				"--workload", "udp-rr", "--placement", "same-host")
			cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=", c.env)
			shown := onTerminal(t, cmd, c.columns)
			const erase = "\r\x1b[K"
			drawn := strings.Split(shown, erase)
			if c.env == "TERM=dumb" {
				if len(drawn) > 1 {
					t.Errorf("a terminal that cannot erase is told to:\n%q", shown)
				}
				drawn = nil
			} else if len(drawn) < 4 {
				t.Errorf("drawn %d times only:\n%q", len(drawn)-1, shown)
			}
			bars := 0
			for i, text := range drawn {
				if i == 0 || i == len(drawn)-1 {
					continue // the text before the first bar and after the last
				}
				line, rest, ended := strings.Cut(text, "\n")
				if ended {
					continue // a line of -v replaced the bar
				}
				if n := utf8.RuneCountInString(line); n >= int(c.columns) {
					t.Errorf("a line of %d columns: %q", n, line+rest)
				}
				if strings.HasPrefix(line, "[") {
					bars++
				}
			}
			if (bars > 0) != c.bar {
				t.Errorf("%d bars, want some: %t:\n%q", bars, c.bar, shown)
			}
			if !strings.Contains(shown, "generation 5: proof after the blocks: it holds in 3 of 3 labs") {
				t.Errorf("no line of -v:\n%q", shown)
			}
			if got := color.MatchString(shown); got != c.color {
				t.Errorf("coloured: %t, want %t:\n%q", got, c.color, shown)
			}
		})
	}
}

// onTerminal runs a command on a terminal of its own with so many columns. It returns all output, with "\n" at the ends
// of lines.
func onTerminal(t *testing.T, cmd *exec.Cmd, columns uint16) string {
	t.Helper()
	// pty(7), ioctl_tty(2)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("unlock the terminal: %v", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("number of the terminal: %v", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: columns}); err != nil {
		t.Fatalf("size of the terminal: %v", err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close()
	text, err := io.ReadAll(master)
	if err != nil && !errors.Is(err, unix.EIO) { // EIO: nobody has the other end any more
		t.Errorf("read the terminal: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v", err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
