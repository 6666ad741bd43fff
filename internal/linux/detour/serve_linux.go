package detour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/linux/thread"
)

// txQueue is the length of the device's own queue, in frames: what may arrive while the process waits for a CPU.
const txQueue = 10000

// Serve is the main function of the process of a detour. It makes the TAP device in the network namespace of the
// process and delays frames until control ends or the device is deleted.
func Serve(ctx context.Context, control net.Conn, args []string, said io.Writer) error {
	name, mtu, fate, err := parse(args)
	if err != nil {
		return err
	}
	fd, err := link.OpenTAP(name, link.TAP{New: true, NonBlocking: true})
	if err != nil {
		return fmt.Errorf("make link %q: %w", name, err)
	}
	defer unix.Close(fd)
	if err := setUp(name, mtu); err != nil {
		return err
	}
	room, err := unix.Mmap(-1, 0, fate.Room(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("allocate the queue of %q: %w", name, err)
	}
	//nolint:gosec // it need not be unpredictable
	q := NewQueue(fate, room, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	ended := make(chan error, 1)
	go func() { // ends with the process, which owns the room
		runtime.LockOSThread()
		thread.Punctual(true)
		thread.Prompt()
		ended <- carry(fd, q, said)
	}()
	return process.Attend(ctx, control, ended)
}

// setUp sets the device up. The device sends nothing by itself: without IPv6 it has no addresses.
func setUp(name string, mtu int) error {
	err := sysctl.Write("net.ipv6.conf."+name+".disable_ipv6", "1")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	h, err := link.Open()
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.ByName(name)
	if err != nil {
		return err
	}
	return errors.Join(h.SetMTU(l.Index, mtu), h.SetQueue(l.Index, txQueue), h.SetUp(l.Index, true))
}

// carry moves frames from the device into the queue, and writes those that are due, until the device is gone. It
// reports a full queue once, and again each time the number of dropped frames is ten times as high.
func carry(fd int, q *Queue, said io.Writer) error {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for say := 1; ; {
		n, err := unix.Read(fd, q.Space())
		now := clock.Now()
		switch {
		case err == nil:
			q.Add(n, now)
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return gone(err)
		}
		if q.Full >= say {
			fmt.Fprintf(said, "no room for %d frames: they were lost besides\n", q.Full)
			say *= 10
		}
		frame, due := q.Next()
		switch {
		case frame != nil && due <= now:
			// The device may be down, or the kernel out of memory: then the frame is lost, as on any link.
			if _, err := unix.Write(fd, frame); errors.Is(err, unix.EBADFD) {
				return gone(err)
			}
			q.Drop()
		case err != nil: // nothing to read, nothing to write
			var wait *unix.Timespec
			if frame != nil {
				t := unix.NsecToTimespec(due - now)
				wait = &t
			}
			if _, err := unix.Ppoll(poll, wait, nil); err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("wait for frames: %w", err)
			}
			if poll[0].Revents&unix.POLLERR != 0 {
				return gone(unix.EBADFD)
			}
		}
	}
}

func gone(err error) error { return fmt.Errorf("the link is gone: %w", err) }
