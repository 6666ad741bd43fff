package testnet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet/pulse"
)

// Main runs the tests of a package and exits. The tests run in a second process, which has its own mount and network
// namespaces, tmpfs on /run and directory of temporary files. If the tests pass but leave something behind (a
// namespace, a mount, a link, a process, a thread in another namespace, a temporary file), the run fails. Without the
// privilege for that, the tests run in this process, and those that need a machine skip.
//
// A process that a test starts from the same binary does not enter new namespaces again.
func Main(m *testing.M) {
	os.Exit(run(m)) //nolint:forbidigo // it is the main function of a test binary
}

func run(m *testing.M) int {
	token, inside := os.LookupEnv(mark)
	if own, ok := strings.CutPrefix(token, insideMark); ok && own == fmt.Sprint(os.Getppid()) {
		return gate(m, token)
	}
	if inside || mayConfigure() != nil {
		return pulse.Around(m.Run)
	}
	code, err := enter()
	if err != nil {
		fmt.Fprintf(os.Stderr, "testnet: %v\n", err) //nolint:forbidigo // it is the main function of a test binary
		return 1
	}
	return code
}

// enter runs this program a second time, inside, and returns its exit status.
func enter() (int, error) {
	dir, err := os.MkdirTemp("", "testnet-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:forbidigo // it is the main function of a test binary
	cmd.Args[0] = os.Args[0]                              //nolint:forbidigo // it is the main function of a test binary
	//nolint:forbidigo // it is the main function of a test binary
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s%d", mark, insideMark, os.Getpid()), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{ //nolint:forbidigo // testnet makes the namespaces of tests
		Cloneflags:   unix.CLONE_NEWNET,
		Unshareflags: unix.CLONE_NEWNS, // with it, os/exec makes all mounts private
		Pdeathsig:    unix.SIGKILL,     // when this thread ends
	}
	runtime.LockOSThread()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the tests inside: %w", err)
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if code := exit.ExitCode(); code >= 0 {
			return code, nil
		}
		return 0, fmt.Errorf("the tests inside: %w", err)
	}
	return 0, err
}

// gate runs the tests and looks for what they left behind.
func gate(m *testing.M, token string) int {
	if err := furnish(); err != nil {
		fmt.Fprintf(os.Stderr, "testnet: %v\n", err) //nolint:forbidigo // it is the main function of a test binary
		return 1
	}
	before, err := look(token)
	if err != nil {
		fmt.Fprintf(os.Stderr, "testnet: %v\n", err) //nolint:forbidigo // it is the main function of a test binary
		return 1
	}
	code := pulse.Around(m.Run)
	if code != 0 {
		return code
	}
	leaks, err := wait(token, before)
	if err != nil {
		fmt.Fprintf(os.Stderr, "testnet: %v\n", err) //nolint:forbidigo // it is the main function of a test binary
		return 1
	}
	if len(leaks) > 0 {
		//nolint:forbidigo // it is the main function of a test binary
		fmt.Fprintf(os.Stderr, "testnet: the tests left behind:\n\t%s\n", strings.Join(leaks, "\n\t"))
		return 1
	}
	return 0
}

// furnish gives the inner process a /run of its own.
func furnish() error {
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount a private /run: %w", err)
	}
	return nil
}
