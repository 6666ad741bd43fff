package runtimetest

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// forgets reports whether the kernel forgets how a process has ended once its parent has waited for it, as those before
// Linux 6.15 do.
func forgets(t *testing.T) bool {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	err = unix.IoctlPidfdInfo(fd, &info)
	return err != nil || info.Mask&unix.PIDFD_INFO_EXIT == 0
}
