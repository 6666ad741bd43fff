package process

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"
)

// A Terminal is one end of a pair of pseudo-terminals, pty(7): the other end reads what is written to it as if it were
// typed.
type Terminal struct {
	*os.File
	fd int // used without Go's poller
}

// NewTerminal makes a pair. The caller closes the program's end after passing it on.
func NewTerminal() (_ *Terminal, program *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("unlock a pseudo-terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("read the number of a pseudo-terminal: %w", err)
	}
	path := "/dev/pts/" + strconv.Itoa(number)
	other, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &Terminal{os.NewFile(uintptr(fd), "/dev/ptmx"), fd}, os.NewFile(uintptr(other), path), nil
}

// Follow gives the terminal the size of another terminal, now and whenever that changes. The program receives SIGWINCH.
func (t *Terminal) Follow(other *os.File) (stop func()) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	set := func() {
		// a terminal without a size is not followed
		if size, err := unix.IoctlGetWinsize(int(other.Fd()), unix.TIOCGWINSZ); err == nil {
			_ = unix.IoctlSetWinsize(t.fd, unix.TIOCSWINSZ, size)
		}
	}
	set()
	go func() {
		for range changed {
			set()
		}
	}()
	return func() {
		signal.Stop(changed)
		close(changed)
	}
}
