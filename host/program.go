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

// DefaultRun is the directory in which programs keep sockets, databases and logs. Each host has its own /run.
const DefaultRun = "/run/nettoll"

// self is the program of this process.
const self = "/proc/self/exe"

// orphanWait is how long child processes of a program may go on to write after the program has ended. After that they
// are killed.
const orphanWait = 200 * time.Millisecond

// dyingWait is how long Await waits for the end of a program whose control socket has failed.
const dyingWait = 2 * time.Second

// A Program is a program, such as ovs-vswitchd, that must run as long as a step is applied.
type Program struct {
	// Name is unique among the programs of a host: "ovs-vswitchd".
	Name string
	// Args are the program and its arguments. The program is looked up in PATH.
	Args []string
	// NS is the network namespace in which it runs; "" is the host's own.
	NS string
	// Env is added to the environment.
	Env []string
	// Package is the name of its Debian package, for the error if it is missing.
	Package string
	// Self is true if the program is nettoll itself, in the role that Args name, see [Daemon].
	Self bool
	// Control gives the program a socket as its standard input, whose other end is [Running.Control].
	Control bool
}

// A Daemon is a role of nettoll that carries packets of a lab. Control is its standard input: the daemon ends when that
// ends. What it writes to log is kept like the output of other programs.
type Daemon func(ctx context.Context, control net.Conn, args []string, log io.Writer) error

// DaemonCommand is the command of nettoll that runs a daemon. Its arguments are the name of the daemon and the daemon's
// own arguments.
const DaemonCommand = "daemon"

// A Daemoner is a part with daemons, by name.
type Daemoner interface {
	Daemons() map[string]Daemon
}

// A Running is a started program. It is killed when its agent ends, for whatever reason.
type Running struct {
	program Program
	process Process
	cmd     *exec.Cmd
	tail    process.Tail
	log     *os.File
	done    chan struct{}
	control net.Conn // nil without one

	mu      sync.Mutex
	stopped bool // it was asked to end
}

// RunDir makes and returns the directory in which a program keeps its sockets and files. The caller removes it.
func (k *Kernel) RunDir(name string) (string, error) {
	dir := filepath.Join(k.run, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make directory of %s: %w", name, err)
	}
	return dir, nil
}

// Start starts a program in a network namespace of the host. Its input is empty unless it has a control socket, and its
// output goes to a log. If the program is not installed, the error is a [linux.UnsupportedError].
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
		r.cmd.Env = append(r.cmd.Env, "GOMAXPROCS=") // that of an agent is 1, but this program carries packets
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
	r.process = Process{Name: p.Name, PID: r.PID()}
	r.process.Started, err = procfs.StartedChild(r.PID()) // it may have ended, and is reaped only after this
	if err != nil {
		_ = process.KillGroup(r.cmd)
	}
	go func() {
		_ = r.cmd.Wait() // the state has more information
		_ = process.KillGroup(r.cmd)
		if r.control != nil {
			_ = r.control.Close()
		}
		_ = r.log.Close()
		close(r.done)
	}()
	if err != nil {
		<-r.done
		return nil, fmt.Errorf("start %q: %w", p.Name, err)
	}
	k.mu.Lock()
	k.programs = append(k.programs, r)
	k.mu.Unlock()
	return r, nil
}

// Write receives the output of the program.
func (r *Running) Write(p []byte) (int, error) {
	_, _ = r.tail.Write(p) // never fails
	return r.log.Write(p)
}

// Control returns the other end of the program's input; nil if it has none. It is closed when the program has ended.
// Only one caller at a time may use it.
func (r *Running) Control() net.Conn { return r.control }

// Await waits until the program says through its control socket, which it must have, that it is ready (see
// [process.Attend]). If the program ends before, the error has the end of its output.
func (r *Running) Await(limit time.Duration) error {
	buf := make([]byte, len(process.Ready))
	err := r.Control().SetReadDeadline(time.Now().Add(limit))
	if err == nil {
		_, err = io.ReadFull(r.Control(), buf)
	}
	if err == nil && string(buf) != process.Ready {
		err = fmt.Errorf("it has said %q instead of %q", buf, process.Ready)
	}
	if err == nil {
		return r.Control().SetReadDeadline(time.Time{})
	}
	select {
	case <-r.Done():
	case <-time.After(dyingWait):
	}
	return errors.Join(r.Died(), fmt.Errorf("wait up to %v for %s: %w", limit, r.program.Name, err))
}

// PID returns the PID of the process.
func (r *Running) PID() int { return r.cmd.Process.Pid }

// Done returns a channel that is closed when the program has ended.
func (r *Running) Done() <-chan struct{} { return r.done }

// A Process identifies a started program, as data, so that a process other than the one that started it can end it.
type Process struct {
	Name string `json:"name"`
	// PID is its number in the PID namespace of the host, and Started its start time, in ticks since boot. The pair is
	// unique.
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`
}

// Process returns the program as data. It may have ended: see [Running.Died].
func (r *Running) Process() Process { return r.process }

// Process returns the program with that name that was started last and has not been stopped. It is the zero value if
// there is none or if it has died.
func (k *Kernel) Process(name string) Process {
	if r := k.Running(name); r != nil {
		if p := r.Process(); k.Runs(p) {
			return p
		}
	}
	return Process{}
}

// Running returns the program with that name that this process has started last and not stopped; nil if there is none.
// The program may have died.
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

// Runs reports whether a program still runs, whichever process has started it.
func (k *Kernel) Runs(p Process) bool {
	if p.PID == 0 {
		return false
	}
	started, err := procfs.Started(p.PID)
	return err == nil && started == p.Started
}

// Stop asks a program to end, and waits for it. After the grace time, it kills the program with its child processes.
// Another process may have started it. Stop succeeds if the program is already gone.
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

// Signal sends the program a signal. The error is os.ErrProcessDone if it has ended.
func (r *Running) Signal(s os.Signal) error { return r.cmd.Process.Signal(s) }

func (r *Running) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// Died returns why a program ended without being stopped, with its last lines. It returns nil while the program runs.
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

// Stop asks the program to end, and waits for it. After the grace time, it kills the program with its child processes.
// It is idempotent.
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

// A ProgramState describes a started program.
type ProgramState struct {
	Name string `json:"name"`
	// PID is its number in the PID namespace of the host.
	PID int `json:"pid"`
	// Died is why it ended without being asked to, or that a signal has stopped it, so that it does no more work. Its last
	// lines follow. It is "" while the program runs.
	Died string `json:"died,omitempty"`
}

// Programs returns the programs that were started and not asked to end.
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
		} else if procfs.Stopped(state.PID) == procfs.BySignal { // a debugger such as strace stops it for a moment only
			state.Died = r.tail.After(fmt.Sprintf("%s (process %d) is stopped (%s)", state.Name, state.PID, procfs.BySignal))
		}
		list = append(list, state)
	}
	return list
}

// maxLog is how much of a log is returned: its end.
const maxLog = 1 << 20

// Logs returns the output of the host's programs, by name: the last megabyte of each.
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
