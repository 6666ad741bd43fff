package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
)

// In a user namespace of its own, a process is root and may make the namespaces of a host. Its files belong to the user
// outside.
func TestStartUser(t *testing.T) {
	testnet.Root(t)
	dir := t.TempDir()
	cmd := self("outer", "user-root", filepath.Join(dir, "written"))
	open(t, dir)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = ordinary()
	if err := cmd.Run(); err != nil {
		t.Errorf("%v: %s", err, &out)
	}
	if diff := cmp.Diff("uid 0, gid 0, setgroups deny, inside true, missing []\n", out.String()); diff != "" {
		t.Errorf("inside (-want +got):\n%s", diff)
	}
	var at unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "written"), &at); err != nil || at.Uid != nobody || at.Gid != nobody {
		t.Errorf("the file belongs to %d:%d, %v", at.Uid, at.Gid, err)
	}
}

// The death signal survives the change of credentials by a new user namespace.
func TestStartUserDiesWithParent(t *testing.T) {
	testnet.Root(t)
	cmd := self("outer", "sleep")
	cmd.SysProcAttr = ordinary()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	} else if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if !alive(pid) {
		t.Errorf("child %d is not there", pid)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for begin := time.Now(); alive(pid); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("child %d outlives its parent", pid)
		}
	}
}

// If the machine allows no more user namespaces, the error says that.
func TestStartUserRefused(t *testing.T) {
	testnet.Root(t)
	// A user namespace that allows no nested one: its limits are its own.
	cmd := self("outer", "limited")
	cmd.SysProcAttr = ordinary()
	out, err := cmd.CombinedOutput()
	want := "make a user namespace: not supported here: missing room for more user namespaces: fork/exec " +
		"/proc/self/exe: no space left on device " +
		"(hint: run as root, or let users make user namespaces: sysctl user.max_user_namespaces is 0: sysctl -w " +
		"user.max_user_namespaces=10000)\n"
	if diff := cmp.Diff(want, string(out)); diff != "" || err == nil {
		t.Errorf("%v; output (-want +got):\n%s", err, diff)
	}
}

func TestExplainUser(t *testing.T) {
	for err, want := range map[error]string{
		unix.EPERM:  "the permission to make user namespaces",
		unix.EACCES: "the permission to make user namespaces",
		unix.EUSERS: "room for more user namespaces",
		unix.EINVAL: "user namespaces in the kernel",
		unix.ENOENT: "",
	} {
		got := explain(err, Options{User: true})
		missing := ""
		if u, ok := errors.AsType[*linux.UnsupportedError](got); ok {
			missing = u.Missing
		}
		if missing != want || !errors.Is(got, err) {
			t.Errorf("%v: missing %q, want %q: %v", err, missing, want, got)
		}
	}
}

const nobody = 65534

// ordinary returns the attributes of an unprivileged user.
func ordinary() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// open lets every user enter a test's directory and write to it.
func open(t *testing.T, dir string) {
	t.Helper()
	for path, mode := range map[string]os.FileMode{dir: 0o777, filepath.Dir(dir): 0o711, os.TempDir(): 0o711} {
		if path == "/tmp" {
			continue // it is already open
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}
