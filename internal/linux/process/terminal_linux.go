package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A Terminal is one end of a pair of pseudo-terminals, pty(7): what is written to it the other end reads as if it were typed.
type Terminal struct {
	*os.File
	fd int // without a poller of Go's being told
}

// NewTerminal makes a pair. The program's end is the caller's to close once it was handed on.
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

// SetSize gives it the size of another terminal, and tells the program (SIGWINCH).
func (t *Terminal) SetSize(of *os.File) error {
	size, err := unix.IoctlGetWinsize(int(of.Fd()), unix.TIOCGWINSZ)
	if err == nil {
		err = unix.IoctlSetWinsize(t.fd, unix.TIOCSWINSZ, size)
	}
	if err != nil {
		return fmt.Errorf("set the size of a terminal: %w", err)
	}
	return nil
}

// Hung says whether an error of reading means that nobody has the program's end open any more.
func Hung(err error) bool { return errors.Is(err, unix.EIO) }
