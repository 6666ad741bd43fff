package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// DefaultRun is where programs keep sockets, databases and logs. A host has a /run of its own.
const DefaultRun = "/run/nettoll"

// self is the program of this process.
const self = "/proc/self/exe"

// orphanWait is how long what a program has started may go on to write after the program has ended: then it is killed.
const orphanWait = 200 * time.Millisecond

// A Program is a program such as ovs-vswitchd that must run as long as a step is applied.
type Program struct {
	// Name is unique among the programs of a host: "ovs-vswitchd".
	Name string
	// Args are the program and its arguments. The program is looked up in PATH.
	Args []string
	// NS is the network namespace it runs in; "" is the host's own.
	NS string
	// Env is added to the environment.
	Env []string
	// Package is what Debian calls the package that has it: for the error where it is missing.
	Package string
	// Self says that the program is this one, in the role that Args name, see [Daemon].
	Self bool
	// Control gives the program a socket as its standard input, whose other end is [Running.Control].
	Control bool
}

// A Daemon is a role of this program that carries packets of a lab. Control is its standard input: when that ends, it
// ends, too. What it writes to log is kept as what programs say.
type Daemon func(ctx context.Context, control net.Conn, args []string, log io.Writer) error

// DaemonCommand is the command of this program that runs a daemon: its arguments are the name of the daemon and those
// that it gets.
const DaemonCommand = "daemon"

// A Daemoner is a part that brings daemons, by their names.
type Daemoner interface {
	Daemons() map[string]Daemon
}

// A Running is a program that was started. It is killed when its agent ends, for whatever reason.
type Running struct {
	program Program
	cmd     *exec.Cmd
	tail    process.Tail
	log     *os.File
	done    chan struct{}
	control net.Conn // nil without

	mu      sync.Mutex
	stopped bool // it was asked to end
}

// RunDir returns the directory in which a program keeps its sockets and files, which it makes. Who made it removes it.
func (k *Kernel) RunDir(name string) (string, error) {
	dir := filepath.Join(k.run, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make directory of %s: %w", name, err)
	}
	return dir, nil
}

// Start starts a program in a network namespace of the host, its input empty unless it is controlled, its output in a
// log. Where the program is not installed the error is a [linux.UnsupportedError].
func (k *Kernel) Start(p Program) (*Running, error) {
	if len(p.Args) == 0 {
		return nil, fmt.Errorf("start %q: no program given", p.Name)
	}
	path, err := self, error(nil)
	if !p.Self {
		path, err = exec.LookPath(p.Args[0])
	}
	if err != nil {
		return nil, &linux.UnsupportedError{
			What: fmt.Sprintf("start %q", p.Name), Missing: fmt.Sprintf("program %q", p.Args[0]),
			Hint: fmt.Sprintf("install the package %s", p.Package), Err: err,
		}
	}
	s, err := k.space(p.NS)
	if err != nil {
		return nil, err
	}
	dir, err := k.RunDir("log")
	if err != nil {
		return nil, err
	}
	r := &Running{program: p, done: make(chan struct{})}
	if r.log, err = os.OpenFile(filepath.Join(dir, p.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND,
		0o600); err != nil {
		return nil, fmt.Errorf("start %q: %w", p.Name, err)
	}
	r.cmd = exec.Command(path, p.Args[1:]...)
	r.cmd.Args[0] = p.Args[0]
	r.cmd.Env = append(os.Environ(), p.Env...)
	if p.Self {
		r.cmd.Args = append([]string{"nettoll"}, p.Args...)
		r.cmd.Env = append(r.cmd.Env, "GOMAXPROCS=") // that of an agent is 1, and this one carries packets
	}
	r.cmd.Stdout, r.cmd.Stderr = r, r
	if p.Control {
		var theirs *os.File
		if r.control, theirs, err = process.Control(); err != nil {
			return nil, errors.Join(fmt.Errorf("start %q: %w", p.Name, err), r.log.Close())
		}
		defer theirs.Close()
		r.cmd.Stdin = theirs
	}
	r.cmd.WaitDelay = orphanWait
	err = process.StartIn(r.cmd, process.Options{Group: true}, func(f func() error) error {
		return netns.Here(int(s.file.Fd()), f)
	})
	if err != nil {
		if r.control != nil {
			_ = r.control.Close()
		}
		return nil, errors.Join(fmt.Errorf("start %q: %w", p.Name, err), r.log.Close())
	}
	go func() {
		_ = r.cmd.Wait() // the state says more
		_ = process.KillGroup(r.cmd)
		if r.control != nil {
			_ = r.control.Close()
		}
		_ = r.log.Close()
		close(r.done)
	}()
	k.mu.Lock()
	k.programs = append(k.programs, r)
	k.mu.Unlock()
	return r, nil
}

// Write is for what the program says.
func (r *Running) Write(p []byte) (int, error) {
	_, _ = r.tail.Write(p) // never fails
	return r.log.Write(p)
}

// Control is the other end of the program's input, nil if it has none. It is closed when the program has ended. One
// caller at a time uses it.
func (r *Running) Control() net.Conn { return r.control }

// PID is the number of the process.
func (r *Running) PID() int { return r.cmd.Process.Pid }

// Done is closed when the program has ended.
func (r *Running) Done() <-chan struct{} { return r.done }

// A Process is a program that a step has started, as data: another process than the one that started it can end it.
type Process struct {
	Name string `json:"name"`
	// PID is its number where the host's processes are numbered, and Started when it was started, in ticks since
	// boot: the two together are never another's.
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`
}

// Process is the program as data.
func (r *Running) Process() (Process, error) {
	p := Process{Name: r.program.Name, PID: r.PID()}
	var err error
	p.Started, err = procfs.Started(p.PID)
	return p, err
}

// Process returns the program of that name which was started last and has not been stopped, the zero value if there
// is none or it has died.
func (k *Kernel) Process(name string) Process {
	if r := k.Running(name); r != nil {
		if p, err := r.Process(); err == nil {
			return p
		}
	}
	return Process{}
}

// Running returns the program of that name which this process has started last and which has not been stopped, nil if
// there is none. It may have died.
func (k *Kernel) Running(name string) *Running {
	k.mu.Lock()
	programs := slices.Clone(k.programs)
	k.mu.Unlock()
	for _, r := range slices.Backward(programs) {
		if r.program.Name == name && !r.isStopped() {
			return r
		}
	}
	return nil
}

// Runs says whether a program still runs, whichever process has started it.
func (k *Kernel) Runs(p Process) bool {
	if p.PID == 0 {
		return false
	}
	started, err := procfs.Started(p.PID)
	return err == nil && started == p.Started
}

// Stop asks a program to end, kills it with what it has started if it has not within the grace, and waits for it.
// It may have been started by another process. Stopping what is gone succeeds.
func (k *Kernel) Stop(p Process, grace time.Duration) error {
	k.mu.Lock()
	ours := slices.IndexFunc(k.programs, func(r *Running) bool { return r.program.Name == p.Name && r.PID() == p.PID })
	var r *Running
	if ours >= 0 {
		r = k.programs[ours]
	}
	k.mu.Unlock()
	if r != nil {
		return r.Stop(grace)
	}
	deadline := time.Now().Add(grace)
	for kill := false; k.Runs(p); time.Sleep(pollPause) {
		late := time.Now().After(deadline)
		if kill && !late {
			continue
		}
		if kill {
			return fmt.Errorf("stop %s: process %d did not end", p.Name, p.PID)
		}
		if err := process.End(p.PID, late); err != nil {
			return fmt.Errorf("stop %s: %w", p.Name, err)
		}
		if late {
			kill, deadline = true, time.Now().Add(grace)
		}
	}
	return nil
}

// Signal sends the program a signal. It is os.ErrProcessDone if it has ended.
func (r *Running) Signal(s os.Signal) error { return r.cmd.Process.Signal(s) }

func (r *Running) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// Died says why a program is gone that nobody stopped, with its last lines; nil while it runs.
func (r *Running) Died() error {
	select {
	case <-r.done:
	default:
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil
	}
	return errors.New(r.tail.After(fmt.Sprintf("%s died: %s", r.program.Name, process.Ended(r.cmd.ProcessState))))
}

// Stop asks the program to end, kills it with what it has started if it has not within the grace, and waits for it. It
// is idempotent.
func (r *Running) Stop(grace time.Duration) error {
	r.mu.Lock()
	again := r.stopped
	r.stopped = true
	r.mu.Unlock()
	if !again {
		_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	}
	select {
	case <-r.done:
		return nil
	case <-time.After(grace):
	}
	if err := process.KillGroup(r.cmd); err != nil {
		return err
	}
	<-r.done
	return nil
}

// A ProgramState describes a program that was started.
type ProgramState struct {
	Name string `json:"name"`
	// PID is its number where the host's processes are numbered.
	PID int `json:"pid"`
	// Died is why it is gone though nobody stopped it, with its last lines; "" while it runs.
	Died string `json:"died,omitempty"`
}

// Programs returns the programs that were started and not stopped.
func (k *Kernel) Programs() []ProgramState {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []ProgramState
	for _, r := range k.programs {
		if r.isStopped() {
			continue
		}
		state := ProgramState{Name: r.program.Name, PID: r.PID()}
		if err := r.Died(); err != nil {
			state.Died = err.Error()
		}
		list = append(list, state)
	}
	return list
}

// maxLog is how much of a log is told: what was said last.
const maxLog = 1 << 20

// Logs returns what the programs of the host have said, by name: the last megabyte of each.
func (k *Kernel) Logs() (map[string]string, error) {
	logs := map[string]string{}
	for _, p := range k.Programs() {
		data, err := os.ReadFile(filepath.Join(k.run, "log", p.Name+".log"))
		if err != nil {
			return nil, fmt.Errorf("read the log of %s: %w", p.Name, err)
		}
		logs[p.Name] = string(data[max(0, len(data)-maxLog):])
	}
	return logs, nil
}
