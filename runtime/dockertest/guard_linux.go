package dockertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/mount"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// isolate gives the guard of a daemon namespaces of its own. Containers are processes of the machine.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Setsid: true}
}

// guard starts the daemon for each line of its input, and ends everything that is left of it when that ends.
func guard(dir, socket string, in io.Reader, out, log io.Writer) int {
	if err := guarding(dir, socket, in, out, log); err != nil {
		fmt.Fprintln(log, err)
		return 1
	}
	return 0
}

func guarding(dir, socket string, in io.Reader, out, log io.Writer) error {
	// What the daemon starts stays below this process.
	const subreaper = 36 // PR_SET_CHILD_SUBREAPER, prctl(2)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, subreaper, 1, 0); errno != 0 {
		return errno
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	var ended chan struct{}
	var cmd *exec.Cmd
	for lines := bufio.NewScanner(in); lines.Scan(); {
		reap()
		cmd, ended = command(dir, socket, log), make(chan struct{})
		if err := cmd.Start(); err != nil {
			return errors.Join(err, sweep(dir))
		}
		go func() {
			_ = cmd.Wait() // its log says why
			close(ended)
			fmt.Fprintln(out, "ended")
		}()
		if err := ready(socket, ended); err != nil {
			return errors.Join(err, sweep(dir))
		}
		fmt.Fprintln(out, "ready")
	}
	if cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGCONT) // it may have ended
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(15 * time.Second):
		}
	}
	return sweep(dir)
}

// reap reaps what the daemon, which has ended, has left. A daemon takes its containerd for alive that was not reaped.
func reap() {
	for range 200 {
		for pid := 1; pid > 0; {
			pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil) // -1 without children
		}
		if len(containerds()) == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// containerds lists the children of this process that are containerd.
func containerds() (list []int) {
	all, err := procfs.ReadPrograms()
	if err != nil {
		return nil
	}
	for pid, p := range all {
		if p.Parent == os.Getpid() && p.Name == "containerd" {
			list = append(list, pid)
		}
	}
	return list
}

// command is that of the daemon, as a user could start it beside the one of the machine.
func command(dir, socket string, log io.Writer) *exec.Cmd {
	config := filepath.Join(dir, "daemon.json")
	cmd := exec.Command("sh", "-c", `echo '{}' > "$0" && exec "$@"`, config, "dockerd", "--config-file", config,
		"--host", "unix://"+socket, "--data-root", filepath.Join(dir, "data"),
		"--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--bridge", "none", "--iptables=false", "--ip6tables=false",
		"--ip-forward=false", "--ip-masq=false")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	return cmd
}

// ready waits until the daemon listens.
func ready(socket string, ended <-chan struct{}) error {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("unix", socket); err == nil {
			return conn.Close()
		}
		select {
		case <-ended:
			return errors.New("dockerd has ended")
		default:
		}
	}
	return errors.New("dockerd does not listen")
}

// sweep kills what is below this process, and removes the directory of the daemon.
func sweep(dir string) error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		children, err := procfs.Children(os.Getpid())
		if err != nil {
			return err
		}
		for _, pid := range children {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
		if len(children) == 0 {
			return mount.Remove(dir)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v are left of dockerd", children)
		}
	}
}

// removeCgroup removes a control group from all hierarchies.
func removeCgroup(t testing.TB, name string) {
	t.Helper()
	if err := cgroup.Remove(name); err != nil {
		t.Error(err)
	}
}
