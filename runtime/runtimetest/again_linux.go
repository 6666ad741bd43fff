package runtimetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/nettoll/nettoll/internal/linux/mount"
)

// aloneVariable is set in the environment of a test program that has a /run of its own.
const aloneVariable = "NETTOLL_TEST_ALONE"

// startAgain runs the test program again, with mounts and a /run of its own, and ends with it. Daemons of a runtime
// change these, and the conformance suite starts them beside the machine.
func startAgain() {
	if os.Getenv(aloneVariable) != "" {
		if err := mount.Private("/run"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_ = os.Unsetenv(aloneVariable)
		return
	}
	if os.Geteuid() != 0 {
		return // it can start no daemon
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), aloneVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if err == nil {
		os.Exit(0)
	}
	if _, failed := errors.AsType[*exec.ExitError](err); !failed {
		fmt.Fprintln(os.Stderr, "start again with mounts of its own:", err)
	}
	os.Exit(1)
}
