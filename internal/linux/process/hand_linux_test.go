package process

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
)

// conns returns both ends of a socket.
func conns(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr)); err != nil {
		t.Fatal(err)
	}
	if b, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

// Files are passed over a socket, and data sent after them is not lost.
func TestHand(t *testing.T) {
	const most = 3
	a, b := conns(t)
	var handed []*os.File
	for i := range most {
		f, err := Memory("handed")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, _ = f.WriteAt([]byte{'a' + byte(i)}, 0)
		handed = append(handed, f)
	}
	if err := Hand(a, handed...); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(a, "more")
	taken, err := Taken(b, most)
	if err != nil || len(taken) != most {
		t.Fatalf("%d files, %v", len(taken), err)
	}
	for i, f := range taken {
		data := make([]byte, 1)
		if _, err := f.ReadAt(data, 0); err != nil || data[0] != 'a'+byte(i) {
			t.Errorf("file %d says %q, %v", i, data, err)
		}
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("file %d is inherited by every child", i)
		}
		_ = f.Close()
	}
	data := make([]byte, 4)
	if _, err := io.ReadFull(b, data); err != nil || string(data) != "more" {
		t.Errorf("what came after them is %q, %v", data, err)
	}
	// No files are valid, too many are refused, and a closed peer is an error.
	if err := Hand(a); err != nil {
		t.Error(err)
	}
	if taken, err := Taken(b, most); err != nil || len(taken) != 0 {
		t.Errorf("%d files, %v", len(taken), err)
	}
	if err := Hand(a, append(handed, handed...)...); err != nil {
		t.Error(err)
	}
	if taken, err := Taken(b, most); err == nil || len(taken) != 0 {
		t.Errorf("%d files of too many, %v", len(taken), err)
	}
	_ = a.Close()
	if _, err := Taken(b, most); err == nil {
		t.Error("nobody hands over files")
	}
}

// A command runs among the processes of a host, with its mounts and name, and its exit status is returned.
func TestRunInside(t *testing.T) {
	testnet.Root(t)
	cmd := exec.Command("/proc/self/exe", "init", "/bin/sh", "-c", "echo ready; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	testnet.Skip(t, Start(cmd, Options{Namespaces: true}))
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if line, err := io.ReadAll(io.LimitReader(out, 6)); string(line) != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	n, err := OpenNamespaces(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	said, err := Memory("said")
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	inside := exec.Command("/bin/sh", "-c", "cat /proc/sys/kernel/hostname /proc/1/cmdline; ls /run; exit 7")
	inside.Stdout, inside.Stderr = said, said
	err = RunInside(inside, n, false, func(*os.Process) {})
	if code := ExitStatus(inside.ProcessState); code != 7 {
		t.Errorf("exit status %d (%v), want 7", code, err)
	}
	text, err := io.ReadAll(io.NewSectionReader(said, 0, 1<<16))
	if err != nil || !strings.HasPrefix(string(text), "tested\n") || !bytes.Contains(text, []byte("init")) ||
		!bytes.HasSuffix(text, []byte("netns\nwhole\n")) {
		t.Errorf("inside it says %q, %v", text, err)
	}
	// A signal reaches its child processes.
	inside = exec.Command("/bin/sh", "-c", "sleep 1000; true")
	_ = RunInside(inside, n, false, func(p *os.Process) {
		if err := SignalGroup(p, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	if code := ExitStatus(inside.ProcessState); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit status %d", code)
	}
	if err := RunInside(exec.Command("/nosuch"), n, false, func(*os.Process) { t.Error("it runs") }); err == nil {
		t.Error("a program that is not there runs")
	}
	// It ends with the host.
	inside = exec.Command("/bin/sleep", "1000")
	_ = RunInside(inside, n, false, func(*os.Process) { _ = cmd.Process.Kill() })
	if code := ExitStatus(inside.ProcessState); code != 128+int(syscall.SIGKILL) {
		t.Errorf("exit status %d", code)
	}
	if err := RunInside(exec.Command("/bin/true"), n, false, func(*os.Process) {}); err == nil {
		t.Error("a command runs on a host that is gone")
	}
}
