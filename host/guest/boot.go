package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux/process"
)

const emulator = "qemu-system-x86_64"

// A Spec describes a guest to boot.
type Spec struct {
	Image Image
	// Files are added to those of the image: directories and files that the script needs.
	Files *Archive
	// Script is the shell script that /bin/sh runs as root when the guest is up. The guest ends with it.
	Script string
	// CPUs is the number of processors. They share one processor of this machine.
	CPUs int
	// Memory is in bytes: for the kernel, all files and all processes.
	Memory uint64
	// Output receives the output of the script and of everything that it starts.
	Output io.Writer
	// Limit is how long the guest may run, from its start.
	Limit time.Duration
	// Say, if not nil, is called with a message about each step that takes seconds.
	Say func(string)
}

// A Machine is a booted guest.
type Machine struct {
	cmd     *exec.Cmd
	ctx     context.Context //nolint:containedctx // it is the context of the process
	cancel  context.CancelFunc
	console console
	said    process.Tail // output of the emulator
	output  sync.WaitGroup
	copied  error
	release func() error // lets the next guest start
}

// Boot starts a guest, which ends with ctx or with this process. Boot returns before the guest is up. It waits while
// another guest runs on this machine. Wait must be called. If there is no emulator, the error is a
// [linux.UnsupportedError].
func Boot(ctx context.Context, spec Spec) (*Machine, error) {
	m, err := boot(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("boot a guest: %w", err)
	}
	return m, nil
}

func boot(ctx context.Context, spec Spec) (_ *Machine, err error) {
	if err := needs(emulator); err != nil {
		return nil, err
	}
	if spec.Say == nil {
		spec.Say = func(string) {}
	}
	release, err := alone(ctx, "@nettoll-guest", func() { spec.Say("another guest is running: waiting until it ends") })
	if err != nil {
		return nil, err
	}
	m := &Machine{release: release}
	defer func() {
		if err != nil {
			err = errors.Join(err, release())
		}
	}()
	root, err := assemble(spec)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	m.ctx, m.cancel = context.WithTimeoutCause(ctx, spec.Limit, fmt.Errorf("it did not end within %v", spec.Limit))
	m.cmd = exec.CommandContext(m.ctx, emulator, arguments(spec)...)
	m.cmd.ExtraFiles = []*os.File{write, root} // numbers 3 and 4
	m.cmd.Stdout, m.cmd.Stderr = &m.console, &m.said
	m.cmd.WaitDelay = time.Second
	spec.Say("booting Linux " + spec.Image.Release)
	err = errors.Join(process.Start(m.cmd, process.Options{}), write.Close())
	if err != nil {
		m.cancel()
		return nil, errors.Join(err, read.Close())
	}
	m.output.Go(func() {
		_, m.copied = io.Copy(spec.Output, read)
		_ = read.Close() // nobody writes any more
	})
	return m, nil
}

// arguments returns the arguments of the emulator.
func arguments(spec Spec) []string {
	return []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		// The older of the two boards boots in half the time. tb-size is the memory for translated code, in MiB.
		//
		// One thread runs all processors in turn. With one thread each (thread=multi), the kernel sometimes panics when
		// it patches its own code, here in one of five runs ("int3: 0000", bugzilla.redhat.com 2216496). It does so for
		// each netfilter hook and each packet socket. On busy machines one thread is not slower.
		"-machine", "pc", "-accel", "tcg,thread=single,tb-size=512", "-cpu", "max",
		"-smp", strconv.Itoa(spec.CPUs), "-m", strconv.FormatUint(spec.Memory>>20, 10),
		"-serial", "stdio", // the console
		// The output has a port of its own, so that it is not mixed with kernel messages; in the guest it is
		// /dev/vport0p1.
		"-device", "virtio-serial-pci", "-chardev", "file,id=output,path=/proc/self/fd/3", "-device",
		"virtserialport,chardev=output",
		"-kernel", spec.Image.Kernel, "-initrd", "/proc/self/fd/4",
		// A panic ends the emulator (panic=-1, -no-reboot). Warnings and worse messages are shown (loglevel=5).
		"-append", "console=ttyS0 loglevel=5 panic=-1 rdinit=/init mitigations=off nokaslr random.trust_cpu=on " +
			"no_timer_check nowatchdog audit=0",
	}
}

// assemble writes the first file system of a guest to an unlinked file.
func assemble(spec Spec) (_ *os.File, err error) {
	f, err := os.CreateTemp("", "guest-*.cpio")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	image, err := os.Open(spec.Image.Root)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	programs, err := io.Copy(f, image)
	if err != nil {
		return nil, err
	}
	if spec.Files != nil {
		if err := spec.Files.Write(f); err != nil {
			return nil, err
		}
	}
	var script Archive
	script.Data("script", 0o755, "#!/bin/sh\n"+spec.Script)
	if err := script.Write(f); err != nil {
		return nil, err
	}
	all, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	return f, fits(programs, all-programs, spec.Memory)
}

// kept is how much memory a kernel keeps for itself, rounded up.
const kept = 128 << 20

// fits returns an error if a guest with that memory has no room for its files. A kernel unpacks them from an archive of
// the same size, and limits its first file system to half of the memory that is left beside the archive
// (mm/shmem.c, shmem_default_max_blocks). What does not fit is silently missing in the guest.
func fits(programs, added int64, memory uint64) error {
	room := (int64(memory) - kept) / 3
	if programs+added <= room {
		return nil
	}
	return fmt.Errorf("its files are too large: %d MiB of programs and modules and %d MiB of tests; "+
		"the limit is %d MiB with %d MiB of memory (test fewer packages at a time, or give guests more memory)",
		programs>>20, added>>20, room>>20, memory>>20)
}

// alone takes a lock of this machine, and calls wait once if another process holds it. The lock is an abstract socket
// with that name, which ends with the process that holds it (unix(7)). Two guests would take each other's CPU time
// until both are too slow.
func alone(ctx context.Context, name string, wait func()) (release func() error, err error) {
	for try := 0; ; try++ {
		var listen net.ListenConfig
		lock, err := listen.Listen(ctx, "unix", name)
		if err == nil {
			return lock.Close, nil
		}
		if try == 0 {
			wait()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock %q: %w (%w)", name, context.Cause(ctx), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// Up returns a channel that is closed when the guest is about to run its script.
func (m *Machine) Up() <-chan struct{} { return m.console.up() }

// Console returns the last lines of the guest's console.
func (m *Machine) Console() string { return m.console.String() }

// Wait waits until the guest has ended and all of its output has arrived, and returns the exit status of the script. If
// a guest ends without one, because of a kernel panic or because its context ended, the error has the last lines of its
// console.
func (m *Machine) Wait() (int, error) {
	ended := m.cmd.Wait()
	m.output.Wait()
	cause := context.Cause(m.ctx) // read it before it is cancelled here
	m.cancel()
	released := m.release()
	status, done, panicked := m.console.result()
	what := "it ended without reporting a result"
	switch {
	case panicked != "":
		what = "its kernel panicked: " + panicked
	case done:
		return status, errors.Join(m.copied, released)
	case cause != nil:
		what = fmt.Sprintf("it was stopped: %v", cause)
	case ended != nil:
		what = m.said.After(fmt.Sprintf("%s: %v", emulator, ended))
	}
	if said := m.console.String(); said != "" {
		what += "; the last lines of its console:\n\t" + strings.ReplaceAll(said, "\n", "\n\t")
	}
	return 0, errors.Join(fmt.Errorf("guest: %s", what), m.copied, released)
}
