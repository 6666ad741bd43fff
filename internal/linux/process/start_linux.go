package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/userns"
)

// Options describe how a process is started. The zero value starts it in the namespaces of its parent.
type Options struct {
	// CPUs is the affinity of the process from its first instruction, so that each of its threads inherits it. Empty
	// means that of the parent.
	CPUs []int
	// Namespaces gives the process its own mount, PID, UTS, IPC and network namespaces, and its own session, so that a
	// terminal's interrupt does not reach it.
	Namespaces bool
	// User gives the process a user namespace of its own, in which it is root and the only user: its IDs are mapped to
	// those of this process. It stays in this session, so that a terminal's interrupt reaches both.
	User bool
	// Group gives the process a process group of its own, which [KillGroup] can end.
	Group bool
	// Session gives the process a session of its own, and so a process group of its own, too (setsid(2)).
	Session bool
}

// namespaces are the namespaces of a host (clone(2)).
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET

// forker runs functions on one locked thread that lives as long as the process. The death signal of a child is sent
// when the *thread* that forked it ends (PR_SET_PDEATHSIG, prctl(2)), and the Go runtime ends threads as it likes.
//
//nolint:gochecknoglobals // the system ties children to a thread: one is enough for a process, and it never ends
var forker = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range todo {
			f()
		}
	}()
	return todo
})

// Start starts cmd. The kernel kills it when this process ends, however it ends. Without the privilege to make
// namespaces, the error is a [linux.UnsupportedError].
func Start(cmd *exec.Cmd, o Options) error {
	done := make(chan error)
	forker() <- func() { done <- start(cmd, o) }
	return <-done
}

// StartIn is like [Start], but from inside a network namespace, which enter enters. Enter is called on a locked thread,
// and calls its argument inside.
func StartIn(cmd *exec.Cmd, o Options, enter func(func() error) error) error {
	done := make(chan error)
	forker() <- func() { done <- enter(func() error { return start(cmd, o) }) }
	return <-done
}

// RunHere starts cmd from the calling thread, in that thread's namespaces, and waits for its end. The thread lives
// until then: the process would die with it.
func RunHere(cmd *exec.Cmd, o Options) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := start(cmd, o); err != nil {
		return err
	}
	return cmd.Wait()
}

// start forks on the calling thread, which is locked.
func start(cmd *exec.Cmd, o Options) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(unix.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	cmd.SysProcAttr.Setsid = o.Session || o.Namespaces
	cmd.SysProcAttr.Setpgid = o.Group && !cmd.SysProcAttr.Setsid
	if o.Namespaces {
		cmd.SysProcAttr.Cloneflags |= namespaces
	}
	if o.User {
		// Since Linux 3.19, a process without permission to set groups can map a group, user_namespaces(7).
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		cmd.SysProcAttr.GidMappingsEnableSetgroups = false
	}
	if len(o.CPUs) == 0 {
		return explain(cmd.Start(), o)
	}
	before, err := Affinity(0)
	if err != nil {
		return err
	}
	if err := SetAffinity(0, o.CPUs); err != nil {
		return err
	}
	startErr := explain(cmd.Start(), o)
	if err := SetAffinity(0, before); err != nil {
		if startErr == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		return errors.Join(startErr, err)
	}
	return startErr
}

// explain converts errors of clone(2) with namespace flags into what is missing.
func explain(err error, o Options) error {
	err = exhausted(err)
	if _, full := errors.AsType[*ExhaustedError](err); full {
		return err
	}
	switch {
	case err == nil:
		return nil
	case o.User:
		return explainUser(err)
	case !o.Namespaces:
		return err
	}
	u := &linux.UnsupportedError{What: "make mount, PID, UTS, IPC and network namespaces", Err: err}
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		u.Missing = "CAP_SYS_ADMIN"
		// This happens with a security module that allows user namespaces, but no privileges in them.
		u.Hint = userns.Hint(os.DirFS("/"))
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		u.Missing = "room for more namespaces"
		u.Hint = "raise the sysctls user.max_net_namespaces, user.max_mnt_namespaces, user.max_pid_namespaces, " +
			"user.max_uts_namespaces and user.max_ipc_namespaces"
	case errors.Is(err, unix.EINVAL):
		u.Missing = "a kernel with all these namespaces"
		u.Hint = "CONFIG_PID_NS, CONFIG_UTS_NS, CONFIG_IPC_NS and CONFIG_NET_NS"
	default:
		return err
	}
	return u
}

// explainUser converts errors of clone(2) with CLONE_NEWUSER, and of writing the maps, into what is missing.
func explainUser(err error) error {
	u := &linux.UnsupportedError{
		What: "make a user namespace", Missing: "the permission to make user namespaces", Hint: userns.Hint(os.DirFS("/")),
		Err: err,
	}
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		if os.Geteuid() == 0 {
			// This is root without its capabilities, as in a container. Since Linux 5.12, mapping root requires this
			// capability, user_namespaces(7).
			u.Hint = "root takes CAP_SETFCAP for it, an ordinary user does not; in a container, docker run --privileged"
		}
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		u.Missing = "room for more user namespaces"
		if len(userns.Obstacles(os.DirFS("/"))) == 0 {
			u.Hint = "run as root, or raise the sysctl user.max_user_namespaces"
		}
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		u.Missing, u.Hint = "user namespaces in the kernel", "run as root, or on a kernel with CONFIG_USER_NS"
	default:
		return err
	}
	return u
}

// End asks a process to end, or kills it and its whole process group. It succeeds if the process is already gone.
func End(pid int, kill bool) error {
	signal, to := unix.SIGTERM, pid
	if kill {
		signal, to = unix.SIGKILL, -pid
	}
	if err := unix.Kill(to, signal); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	return nil
}

// KillGroup kills the process group of cmd, which was started as a group of its own. It succeeds if the group is
// already gone.
func KillGroup(cmd *exec.Cmd) error {
	if cmd.Process == nil {
		return nil
	}
	if err := unix.Kill(-cmd.Process.Pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process group %d: %w", cmd.Process.Pid, err)
	}
	return nil
}
