package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Await returns a channel that is closed when a process is gone that need not be a child, and a function that waits for
// that and says how it has ended, as [Ended] does.
func Await(pid int) (<-chan struct{}, func() string, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	done, how := make(chan struct{}), ""
	go func() {
		defer close(done)
		defer unix.Close(fd)
		for { // a pidfd becomes readable when the process ends (pidfd_open(2))
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if n > 0 || err != unix.EINTR {
				break
			}
		}
		how = exited(fd, pid)
	}()
	return done, func() string { <-done; return how }, nil
}

// exited says how a process has ended. Until somebody has waited for it, /proc has its status; from then on its pidfd
// has, since Linux 6.15. Somebody may wait for it between the two looks.
func exited(fd, pid int) string {
	if status, ok := zombie(pid); ok {
		return ending(status)
	}
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if err := unix.IoctlPidfdInfo(fd, &info); err == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0 {
		return ending(syscall.WaitStatus(info.Exit_code))
	}
	return Ended(nil)
}

// Forgets reports whether the kernel forgets how a process has ended once its parent has waited for it, as those before
// Linux 6.15 do. It starts a program to see it; only tests need to know.
func Forgets() (bool, error) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		return false, err
	}
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return false, err
	}
	defer unix.Close(fd)
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	err = unix.IoctlPidfdInfo(fd, &info)
	return err != nil || info.Mask&unix.PIDFD_INFO_EXIT == 0, nil
}

// zombie reads the status of a process that has ended and that nobody has waited for: the last field of /proc/PID/stat
// (proc_pid_stat(5)).
func zombie(pid int) (syscall.WaitStatus, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	fields := afterName(string(text))
	if len(fields) == 0 || fields[0] != "Z" {
		return 0, false
	}
	status, err := strconv.ParseUint(fields[len(fields)-1], 10, 32)
	return syscall.WaitStatus(status), err == nil
}

// ending describes the status of a process as [Ended] does.
func ending(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "signal: " + s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}
