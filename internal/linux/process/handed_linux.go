package process

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/netns"
)

// mostHanded is the largest number of files in one message (SCM_MAX_FD, include/net/scm.h).
const mostHanded = 253

// Handed takes the files of this process from the socket at a path, for processes that can inherit none. It hands over
// the network namespace of this process first. What it gets are standard input, output and error, and the files of
// "--file" options, as those of [Inherited]. Standard error takes the place of this process's own.
func Handed(path string, values []string) (in, out *os.File, files map[string]*os.File, err error) {
	failed := func(err error) (*os.File, *os.File, map[string]*os.File, error) {
		return nil, nil, nil, fmt.Errorf("take files from %q: %w", path, err)
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return failed(err)
	}
	defer conn.Close()
	ns, err := netns.Current()
	if err != nil {
		return failed(err)
	}
	defer ns.Close()
	if err := Hand(conn, ns); err != nil {
		return failed(err)
	}
	all, err := Taken(conn, mostHanded)
	if err != nil {
		return failed(err)
	}
	if len(all) < firstExtra {
		return failed(errors.New("standard input, output and error are not among them"))
	}
	stderr := all[2]
	defer stderr.Close()
	if err := unix.Dup3(int(stderr.Fd()), unix.Stderr, 0); err != nil {
		return failed(err)
	}
	files, err = named(values, func(_ string, fd int) (*os.File, error) {
		if fd >= len(all) {
			return nil, errors.New("it was not handed over")
		}
		return all[fd], nil
	})
	if err != nil {
		return failed(err)
	}
	return all[0], all[1], files, nil
}
