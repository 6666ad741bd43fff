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
)

// Serve is the main function of the process. It moves frames until control ends or a device is deleted. Each direction
// of a pair has a thread of its own, which waits in read(2): a frame costs two system calls and a copy in between.
func Serve(ctx context.Context, control net.Conn, args []string, _ io.Writer) error {
	wires, err := parse(args)
	if err != nil {
		return err
	}
	ended := make(chan error, 1+2*len(wires))
	for _, w := range wires {
		near, far, err := w.open()
		if err != nil {
			return err
		}
		// both end with the process, which owns the descriptors
		go func() { ended <- move(far, near, w.Far) }()
		go func() { ended <- move(near, far, w.Near) }()
	}
	go func() {
		_, err := io.Copy(io.Discard, control)
		ended <- err
	}()
	if _, err := io.WriteString(control, Ready); err != nil {
		return fmt.Errorf("say that all devices are open: %w", err)
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
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

// move reads frames from one device and writes them to another, until one of them is gone.
func move(from, to int, name string) error {
	runtime.LockOSThread()
	frame := make([]byte, link.LargestFrame)
	for {
		n, err := unix.Read(from, frame)
		if err == nil {
			// The other device may be down, or the kernel out of memory: then the frame is lost, as on any link.
			_, err = unix.Write(to, frame[:n])
			if !errors.Is(err, unix.EBADFD) {
				continue
			}
		}
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("move frames from %s: %w", name, err)
		}
	}
}
