package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// Detach starts cmd in a session of its own. It lives on when this process ends, until it ends itself or receives a
// signal.
func Detach(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return exhausted(cmd.Start())
}

// Namespaces holds the namespaces of a host, and the network namespace of one of its containers.
type Namespaces struct{ Mount, PID, UTS, IPC, Net *os.File }

// OpenNamespaces opens the namespaces of a process. Its PID may have been reused: the caller knows whether it has
// ended.
func OpenNamespaces(pid int) (_ *Namespaces, err error) {
	n := &Namespaces{}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	for _, one := range n.all() {
		if *one.file, err = os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, one.name)); err != nil {
			return nil, fmt.Errorf("open the %s namespace of process %d: %w", one.name, pid, err)
		}
	}
	return n, nil
}

// Close closes the open files.
func (n *Namespaces) Close() {
	for _, one := range n.all() {
		if *one.file != nil {
			_ = (*one.file).Close()
		}
	}
}

type namespace struct {
	name string // below /proc/PID/ns
	kind int    // a flag of clone(2)
	file **os.File
}

// all lists the namespaces in the order in which they are entered. The last one is the one whose /proc the others need.
func (n *Namespaces) all() []namespace {
	return []namespace{
		{"pid", unix.CLONE_NEWPID, &n.PID},
		{"uts", unix.CLONE_NEWUTS, &n.UTS},
		{"ipc", unix.CLONE_NEWIPC, &n.IPC},
		{"net", unix.CLONE_NEWNET, &n.Net},
		{"mnt", unix.CLONE_NEWNS, &n.Mount},
	}
}

// RunInside runs cmd until it ends, in other namespaces, and calls started when it runs. Its standard files must be
// files. It leads a process group of its own. With terminal, its standard input is a terminal, and it leads that
// terminal's session. It ends with the PID namespace.
func RunInside(cmd *exec.Cmd, n *Namespaces, terminal bool, started func(*os.Process)) error {
	done := make(chan error)
	go onThread(func() { done <- runInside(cmd, n, terminal, started) })
	return <-done
}

// onThread calls f on a thread that ends with the calling goroutine. A thread that has left the mounts of the others
// cannot return to share them (setns(2)). The first thread of a process never ends, and /proc/self shows that thread.
// If the caller is on it, another goroutine calls f, which cannot be on that thread at the same time.
func onThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}

func runInside(cmd *exec.Cmd, n *Namespaces, terminal bool, started func(*os.Process)) error {
	// A thread must have its own working directory and root before it can have its own mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("have a directory of its own: %w", err)
	}
	for _, one := range n.all() {
		if err := unix.Setns(int((*one.file).Fd()), one.kind); errors.Is(err, unix.EPERM) {
			return &linux.UnsupportedError{
				What: fmt.Sprintf("enter the %s namespace of a host", one.name), Missing: "CAP_SYS_ADMIN", Hint: "run it as root",
				Err: err,
			}
		} else if err != nil {
			return fmt.Errorf("enter the %s namespace of a host: %w", one.name, err)
		}
	}
	// No death signal: a process whose parent is outside its PID namespace would take it as already dead
	// (syscall.forkAndExecInChild1). It ends with the namespace.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !terminal, Setsid: terminal, Setctty: terminal}
	if err := cmd.Start(); err != nil {
		return err
	}
	started(cmd.Process)
	return cmd.Wait()
}

// SignalGroup sends a signal to the process group that a process leads. It does nothing if the process has ended.
func SignalGroup(leader *os.Process, s syscall.Signal) error {
	if err := unix.Kill(-leader.Pid, s); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process group %d: %w", leader.Pid, err)
	}
	return nil
}
