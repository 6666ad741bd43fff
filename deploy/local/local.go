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
	// dying is how long a host may take to end after its agent has stopped talking.
	dying = 100 * time.Millisecond
	// waitDelay is how long stderr may be read after the process has ended. Nobody else can hold it open then.
	waitDelay = 500 * time.Millisecond
)

// Options say what host to start.
type Options struct {
	// Name is that of the host, "host1", and its host name inside.
	Name string
	// Files are passed on to the agent under these names. They stay the caller's, who may close them when Start has
	// returned.
	Files map[string]*os.File
	// Executable is a program whose commands "host-init", "agent" and "worker" are [Init], [agent.Serve] and a worker.
	// "" is this program.
	Executable string
	// Env is the environment of the host's processes; nil is that of this one.
	Env []string
}

// A Host is a host on this machine.
type Host struct {
	*agent.Host
	cmd    *exec.Cmd
	tail   process.Tail
	in     *os.File
	exited chan struct{} // closed when PID 1 is gone, and everything below it
	closed sync.Once
}

// Start starts a host and waits until its agent answers. Several can be started at once. Without the privilege for it
// the error is a [linux.UnsupportedError].
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
		_ = h.cmd.Wait() // the state says more
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

// conn is the agent's streams. Closing it is an end of the agent's input; its output ends with the host.
type conn struct {
	io.Reader
	io.WriteCloser
}

// why says how the host ended, and sees to it that it does.
func (h *Host) why() error {
	select {
	case <-h.exited:
	case <-time.After(dying):
		if !exiting(h.cmd.Process.Pid) {
			_ = h.cmd.Process.Kill()
			<-h.exited
			return errors.New(h.tail.After("its agent stopped answering"))
		}
		<-h.exited // on a busy machine it takes the kernel longer to end all of its processes
	}
	return errors.New(h.tail.After(ended(h.cmd.ProcessState)))
}

// exiting reports whether a process has begun to exit: it has no memory any more, and so no command line.
func exiting(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err != nil || len(line) == 0
}

// ended says how PID 1 ended. The Go runtime ends a program that crashes by SIGABRT, which PID 1 cannot send to itself;
// then it exits with status 2 (dieFromSignal, runtime/signal_unix.go). Wrong arguments, with the same status, are never
// given to it here.
func ended(s *os.ProcessState) string {
	if s.ExitCode() == exitUsage {
		return "its PID 1 crashed"
	}
	return s.String()
}

// whatStopped says that the agent of this host, or a worker of it unless that is "", is stopped.
func (h *Host) whatStopped(name, worker string) string {
	all, err := procfs.ReadPrograms()
	if err != nil {
		return "" // what did not answer is known all the same
	}
	child := func(of int, args ...string) (procfs.Program, bool) {
		start := strings.Join(append([]string{argv0}, args...), "\x00") + "\x00"
		for pid, p := range all {
			if p.Parent == of {
				if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(line), start) {
					return p, true
				}
			}
		}
		return procfs.Program{}, false
	}
	says := func(what string, p procfs.Program) string {
		return fmt.Sprintf("%s (process %d) is stopped (%s)", what, p.PID, p.Stopped)
	}
	served, ok := child(h.PID(), "agent")
	switch {
	case !ok:
		return ""
	case served.Stopped != "":
		return says("agent of "+name, served)
	case worker == "":
		return ""
	}
	if w, ok := child(served.PID, "worker", "--name", worker); ok && w.Stopped != "" {
		return says("worker "+worker, w)
	}
	return ""
}

// PID is the number of the host's PID 1 out here.
func (h *Host) PID() int { return h.cmd.Process.Pid }

// NetNS opens the network namespace of the host, which lives on while the file is open. The file is the caller's to
// close.
func (h *Host) NetNS() (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", h.PID()))
	select {
	case <-h.exited: // the number may be another's by now
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
		_ = h.Host.Close() // never fails
		h.end()
	})
	return nil
}

// end gives the agent, whose input has ended, a moment, and then ends everything by its PID 1.
func (h *Host) end() {
	select {
	case <-h.exited:
	case <-time.After(orderly):
		_ = h.cmd.Process.Kill() // it may be gone
		<-h.exited
	}
	_ = h.in.Close()
}
