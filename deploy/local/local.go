package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/nettoll/nettoll/host/agent"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

const (
	// orderly is how long Close waits for the agent to end by itself.
	orderly = 5 * time.Millisecond
	// dying is how long a host may take to end after its agent has closed the connection.
	dying = 100 * time.Millisecond
	// waitDelay is how long stderr may be read after the process has ended. No other process can hold it open then.
	waitDelay = 500 * time.Millisecond
)

// Options describe the host to start.
type Options struct {
	// Name is the name of the host, "host1", and its host name inside.
	Name string
	// Files are passed on to the agent under these names. The caller still owns them, and may close them when Start has
	// returned.
	Files map[string]*os.File
	// Cgroups leaves those of the machine in the host: runtimes make their own there.
	Cgroups bool
	// Executable is a program whose commands "host-init", "agent" and "worker" run [Init], [agent.Serve] and a worker.
	// "" means this program.
	Executable string
	// Env is the environment of the host's processes; nil means that of this process.
	Env []string
}

// A Host is a host on this machine.
type Host struct {
	*agent.Host
	cmd    *exec.Cmd
	tail   process.Tail
	in     *os.File
	exited chan struct{} // closed when PID 1 and everything below it is gone
	closed sync.Once
}

// Start starts a host and waits until its agent answers. Several hosts can be started at once. If a privilege is
// missing, the error is a [linux.UnsupportedError].
func Start(ctx context.Context, o Options) (*Host, error) {
	h, err := start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start host %q: %w", o.Name, err)
	}
	return h, nil
}

func start(ctx context.Context, o Options) (*Host, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Executable == "" {
		o.Executable = "/proc/self/exe"
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	h := &Host{exited: make(chan struct{})}
	h.cmd = &exec.Cmd{
		Path:      o.Executable,
		Args:      []string{argv0, "host-init", "--name", o.Name},
		Env:       environ(o.Env),
		Stderr:    &h.tail,
		WaitDelay: waitDelay,
	}
	if o.Cgroups {
		h.cmd.Args = append(h.cmd.Args, "--cgroups", "keep")
	}
	process.Pass(h.cmd, o.Files)
	theirIn, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in, theirOut, err := os.Pipe()
	if err != nil {
		_ = theirIn.Close()
		_ = out.Close()
		return nil, err
	}
	h.in = in
	h.cmd.Stdin, h.cmd.Stdout = theirIn, theirOut
	err = process.Start(h.cmd, process.Options{Namespaces: true})
	_ = theirIn.Close()
	_ = theirOut.Close()
	if err != nil {
		_ = in.Close()
		_ = out.Close()
		return nil, err
	}
	go func() {
		_ = h.cmd.Wait() // the state has more information
		close(h.exited)
	}()
	h.Host, err = agent.Connect(ctx, conn{in, out}, agent.Options{
		Name: o.Name, Why: h.why, Stopped: func(worker string) string { return h.whatStopped(o.Name, worker) },
	})
	if err != nil {
		h.end()
		if h.cmd.ProcessState.ExitCode() == exitUnsupported {
			return nil, &linux.UnsupportedError{
				What: "isolate it", Missing: "privilege to mount /proc, /sys and /run", Err: errors.New(h.tail.String()),
				Hint: "run as root, in a container with --privileged",
			}
		}
		return nil, err
	}
	return h, nil
}

// conn holds the agent's streams. Closing it ends the agent's input; the agent's output ends with the host.
type conn struct {
	io.Reader
	io.WriteCloser
}

// why returns how the host ended, and makes sure that it ends.
func (h *Host) why() error {
	select {
	case <-h.exited:
	case <-time.After(dying):
		if !exiting(h.cmd.Process.Pid) {
			_ = h.cmd.Process.Kill()
			<-h.exited
			return errors.New(h.tail.After("its agent stopped answering"))
		}
		<-h.exited // on a busy machine the kernel takes longer to end all of its processes
	}
	return errors.New(h.tail.After(ended(h.cmd.ProcessState)))
}

// exiting reports whether a process has begun to exit: it has no memory any more, and so no command line.
func exiting(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err != nil || len(line) == 0
}

// ended describes how PID 1 ended. The Go runtime ends a program that crashes with SIGABRT. PID 1 cannot send SIGABRT
// to itself, so it exits with status 2 (dieFromSignal, runtime/signal_unix.go). Wrong arguments give the same status,
// but do not occur here.
func ended(s *os.ProcessState) string {
	if s.ExitCode() == exitUsage {
		return "its PID 1 crashed"
	}
	return s.String()
}

// whatStopped reports that the agent of this host is stopped, or a worker of it unless worker is "".
func (h *Host) whatStopped(name, worker string) string {
	all, err := procfs.ReadPrograms()
	if err != nil {
		return "" // the caller knows what did not answer
	}
	family := procfs.Family(all, h.PID())
	find := func(args ...string) (procfs.Program, bool) { // beside containers or in one, where it has another path
		begin := strings.Join(args, "\x00") + "\x00"
		for pid, p := range all {
			if !family[pid] {
				continue
			}
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if _, rest, _ := strings.Cut(string(line), "\x00"); strings.HasPrefix(rest, begin) {
				return p, true
			}
		}
		return procfs.Program{}, false
	}
	says := func(what string, p procfs.Program) string {
		return fmt.Sprintf("%s (process %d) is stopped (%s)", what, p.PID, p.Stopped)
	}
	served, ok := find("agent")
	switch {
	case !ok:
		return ""
	case served.Stopped != "":
		return says("agent of "+name, served)
	case worker == "":
		return ""
	}
	if w, ok := find("worker", "--name", worker); ok && w.Stopped != "" {
		return says("worker "+worker, w)
	}
	return ""
}

// PID returns the PID of the host's PID 1 as seen outside.
func (h *Host) PID() int { return h.cmd.Process.Pid }

// NetNS opens the network namespace of the host. The namespace exists while the file is open. The caller closes the
// file.
func (h *Host) NetNS() (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", h.PID()))
	select {
	case <-h.exited: // the PID may have been reused
		if err == nil {
			_ = f.Close()
		}
		return nil, fmt.Errorf("open the network namespace of host %q: it has ended", h.Name())
	default:
	}
	if err != nil {
		return nil, fmt.Errorf("open the network namespace of host %q: %w", h.Name(), err)
	}
	return f, nil
}

// Close ends the host with everything on it and waits until it is gone. It is idempotent.
func (h *Host) Close() error {
	h.closed.Do(func() {
		_ = h.Host.Close() // never returns an error
		h.end()
	})
	return nil
}

// end gives the agent, whose input has ended, a moment. Then it kills PID 1, which ends everything.
func (h *Host) end() {
	select {
	case <-h.exited:
	case <-time.After(orderly):
		_ = h.cmd.Process.Kill() // it may already be gone
		<-h.exited
	}
	_ = h.in.Close()
}
