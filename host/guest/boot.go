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

// A Spec is a guest to boot.
type Spec struct {
	Image Image
	// Files are added to those of the image: directories and files that the script needs.
	Files *Archive
	// Script is the text of what the guest runs when it is up, by /bin/sh as root; the guest ends with it.
	Script string
	// CPUs is the number of processors. Each is a thread of the emulator.
	CPUs int
	// Memory is in bytes: for the kernel, all files and what runs.
	Memory uint64
	// Output gets what the script and all that it starts write.
	Output io.Writer
}

// A Machine is a guest that was booted.
type Machine struct {
	cmd     *exec.Cmd
	ctx     context.Context //nolint:containedctx // it is the context of the process
	console console
	said    process.Tail // by the emulator
	output  sync.WaitGroup
	copied  error
	clean   []func() error
}

// Boot starts a guest, which ends with ctx or with this process, and returns before it is up. Wait must be called. Where there is no emulator the error is
// a [linux.UnsupportedError].
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
	m := &Machine{ctx: ctx}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	release, err := alone(ctx)
	if err != nil {
		return nil, err
	}
	m.clean = append(m.clean, release)
	root, err := assemble(spec)
	if err != nil {
		return nil, err
	}
	m.clean = append(m.clean, func() error { return os.Remove(root) })
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	m.cmd = exec.CommandContext(ctx, emulator, arguments(spec, root)...)
	m.cmd.ExtraFiles = []*os.File{write} // number 3
	m.cmd.Stdout, m.cmd.Stderr = &m.console, &m.said
	m.cmd.WaitDelay = time.Second
	err = errors.Join(process.Start(m.cmd, process.Options{}), write.Close())
	if err != nil {
		return nil, errors.Join(err, read.Close())
	}
	m.output.Go(func() {
		_, m.copied = io.Copy(spec.Output, read)
		_ = read.Close() // nobody writes any more
	})
	return m, nil
}

// arguments are those of the emulator.
func arguments(spec Spec, root string) []string {
	return []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-nographic",
		// The older of the two boards boots in half the time. tb-size is the memory for translated code, in MiB.
		"-machine", "pc", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max",
		"-smp", strconv.Itoa(spec.CPUs), "-m", strconv.FormatUint(spec.Memory>>20, 10),
		"-serial", "stdio", // the console
		// The output has a port of its own, so that nothing the kernel says gets into it; in the guest it is /dev/vport0p1.
		"-device", "virtio-serial-pci", "-chardev", "file,id=output,path=/proc/self/fd/3", "-device", "virtserialport,chardev=output",
		"-kernel", spec.Image.Kernel, "-initrd", root,
		// A panic ends the emulator (panic=-1, -no-reboot). Warnings and what is worse are shown (loglevel=5).
		"-append", "console=ttyS0 loglevel=5 panic=-1 rdinit=/init mitigations=off nokaslr random.trust_cpu=on no_timer_check nowatchdog audit=0",
	}
}

// assemble writes the whole first file system of a guest to a temporary file.
func assemble(spec Spec) (name string, err error) {
	f, err := os.CreateTemp("", "guest-*.cpio")
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	image, err := os.Open(spec.Image.Root)
	if err != nil {
		return "", err
	}
	defer image.Close()
	if _, err := io.Copy(f, image); err != nil {
		return "", err
	}
	if spec.Files != nil {
		if err := spec.Files.Write(f); err != nil {
			return "", err
		}
	}
	var script Archive
	script.Data("script", 0o755, "#!/bin/sh\n"+spec.Script)
	return f.Name(), script.Write(f)
}

// alone waits until no other guest of this user's or anybody's runs here: two would take each other's processors until both are too slow. The lock is an
// abstract socket, which is gone with the process that has it (unix(7)).
func alone(ctx context.Context) (release func() error, err error) {
	for {
		var listen net.ListenConfig
		lock, err := listen.Listen(ctx, "unix", "@nettoll-guest")
		if err == nil {
			return lock.Close, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait until no other guest runs: %w (%w)", context.Cause(ctx), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// Up returns a channel that is closed when the guest is about to run its script.
func (m *Machine) Up() <-chan struct{} { return m.console.up() }

// Console returns the last lines of the guest's console.
func (m *Machine) Console() string { return m.console.tail.String() }

// Wait waits until the guest has ended and all of its output has arrived, and returns the exit status of the script. A guest that ends without one, in a panic
// of its kernel or because its context did, is an error with the last lines of its console.
func (m *Machine) Wait() (int, error) {
	ended := m.cmd.Wait()
	m.output.Wait()
	closed := m.close()
	if status, done := m.console.status(); done {
		return status, errors.Join(m.copied, closed)
	}
	what := "it ended without a result"
	switch {
	case m.ctx.Err() != nil:
		what = fmt.Sprintf("it was stopped: %v", context.Cause(m.ctx))
	case m.console.panicked():
		what = "its kernel panicked"
	case ended != nil:
		what = m.said.After(fmt.Sprintf("%s: %v", emulator, ended))
	}
	return 0, errors.Join(fmt.Errorf("guest: %s", m.console.tail.After(what)), m.copied, closed)
}

func (m *Machine) close() error {
	var errs []error
	for _, f := range m.clean {
		errs = append(errs, f())
	}
	m.clean = nil
	return errors.Join(errs...)
}

// A console is what a guest's kernel says: an io.Writer that looks for the lines of init.sh.
type console struct {
	tail process.Tail

	mu     sync.Mutex
	line   []byte
	ready  chan struct{}
	isUp   bool
	ended  bool
	code   int
	panics bool
}

// marker begins what init.sh says in the log of the kernel.
const marker = "nettoll-guest: "

// longest is as much as is kept of a line.
const longest = 4096

// Write never fails.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range p {
		switch {
		case b == '\n':
			c.read(string(c.line))
			c.line = c.line[:0]
		case b != '\r' && len(c.line) < longest:
			c.line = append(c.line, b)
		}
	}
	return len(p), nil
}

// read is told each line.
func (c *console) read(line string) {
	_, _ = c.tail.Write([]byte(line + "\n")) // never fails
	// A record of the kernel's log begins with the time, "[   12.345678] ".
	stamp, said, record := strings.Cut(line, "] ")
	if !record || !strings.HasPrefix(stamp, "[") {
		return
	}
	switch rest, ours := strings.CutPrefix(said, marker); {
	case ours && rest == "up":
		if !c.isUp {
			c.isUp = true
			close(c.wake())
		}
	case ours:
		text, is := strings.CutPrefix(rest, "exit ")
		if code, err := strconv.ParseUint(text, 10, 8); is && err == nil {
			c.ended, c.code = true, int(code)
		}
	case strings.HasPrefix(said, "Kernel panic"):
		c.panics = true
	}
}

// wake returns the channel of up. The caller has the lock.
func (c *console) wake() chan struct{} {
	if c.ready == nil {
		c.ready = make(chan struct{})
	}
	return c.ready
}

func (c *console) up() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wake()
}

func (c *console) status() (code int, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code, c.ended && !c.panics
}

func (c *console) panicked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.panics
}
