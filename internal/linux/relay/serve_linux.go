package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// Serve is the main function of the process. It moves frames until control ends or a device is deleted. Each direction
// of a pair has a thread of its own, which waits in read(2): a frame costs two system calls, which copy it. What cannot
// be written is lost, as on any link, and is said.
func Serve(ctx context.Context, control net.Conn, args []string, said io.Writer) error {
	wires, err := parse(args)
	if err != nil {
		return err
	}
	// one P for each thread, so that none waits for another one's after a read, and two more
	runtime.GOMAXPROCS(2*len(wires) + 2)
	ended := make(chan error, 2*len(wires))
	for _, w := range wires {
		near, far, err := w.open()
		if err != nil {
			return err
		}
		// both end with the process, which owns the descriptors
		inside := w.Far + " in " + w.Path
		go func() { ended <- move(device{far, inside}, device{near, w.Near}, said) }()
		go func() { ended <- move(device{near, w.Near}, device{far, inside}, said) }()
	}
	return process.Attend(ctx, control, ended)
}

// open opens both devices.
func (w Wire) open() (near, far int, err error) {
	space, err := netns.Open(w.Path)
	if err != nil {
		return 0, 0, err
	}
	defer space.Close()
	if err := netns.Do(int(space.Fd()), func() (err error) {
		far, err = link.OpenTAP(w.Far, link.TAP{MultiQueue: w.MultiQueue})
		return err
	}); err != nil {
		return 0, 0, fmt.Errorf("open TAP device %s in %s: %w", w.Far, w.Path, err)
	}
	if near, err = link.OpenTAP(w.Near, link.TAP{New: true}); err != nil {
		return 0, 0, fmt.Errorf("make TAP device %s: %w", w.Near, err)
	}
	return near, far, nil
}

// A device is an open TAP device.
type device struct {
	fd   int
	name string
}

// move reads frames from one device and writes them to another, until one of them is gone. It reports the first frame
// that could not be written, and again each time that there are ten times as many: the device may be down, or the
// kernel out of memory.
func move(from, to device, said io.Writer) error {
	runtime.LockOSThread()
	frame := make([]byte, link.LargestFrame)
	for lost, say := 0, 1; ; {
		n, err := unix.Read(from.fd, frame)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return fmt.Errorf("read frames of %s: %w", from.name, err)
		}
		if _, err = unix.Write(to.fd, frame[:n]); err == nil {
			continue
		} else if errors.Is(err, unix.EBADFD) {
			return fmt.Errorf("write frames to %s: %w", to.name, err)
		}
		if lost++; lost == say {
			fmt.Fprintf(said, "%d frames from %s to %s were lost: %v\n", lost, from.name, to.name, err)
			say *= 10
		}
	}
}
