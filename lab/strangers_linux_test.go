package lab

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
)

// stranger is a user other than the one that runs the tests.
const stranger = 4242

// as calls f on a thread of another user, which ends with it.
func as(t *testing.T, uid int, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			done <- errno
			return
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// An owner that belongs to another user gets no files and no request.
func TestOwnerOfAnother(t *testing.T) {
	testnet.Root(t)
	r := registry(t)
	dir, lock, err := r.Claim("a")
	testnet.Skip(t, err)
	defer lock.Close()
	defer dir.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	if err := atSocket(dir, func(at *net.UnixAddr) error {
		return unix.Bind(fd, &unix.SockaddrUnix{Name: at.Name})
	}); err != nil {
		t.Fatal(err)
	}
	as(t, stranger, func() error { return unix.Listen(fd, 1) }) // the socket then belongs to that user, unix(7)
	l, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	files := [3]*os.File{lock, lock, lock}
	if _, err := r.Lab(Entry{Name: "a"}).Run(t.Context(), Command{At: "h1"}, files); err == nil ||
		!strings.Contains(err.Error(), `refuse the owner of lab "a": it belongs to user 4242`) {
		t.Errorf("Run = %v", err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rights := make([]byte, 100)
	if n, handed, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 100), rights); n > 0 || handed > 0 {
		t.Errorf("it got %d bytes, and %d of files, %v", n, handed, err)
	}
}

// A client of another user is refused before it has sent anything.
func TestClientOfAnother(t *testing.T) {
	testnet.Root(t)
	var fds [2]int
	as(t, stranger, func() (err error) {
		fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	theirs := os.NewFile(uintptr(fds[1]), "theirs")
	defer theirs.Close()
	ours := os.NewFile(uintptr(fds[0]), "ours")
	conn, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := (&owner{}).answer(t.Context(), conn.(*net.UnixConn)); err == nil ||
		!strings.Contains(err.Error(), "refuse a client: it belongs to user 4242") {
		t.Errorf("answer = %v", err)
	}
	if said, err := io.ReadAll(theirs); len(said) > 0 || err != nil {
		t.Errorf("it is told %q, %v", said, err)
	}
}

// If the runtime directory belongs to another user, labs are in another place.
func TestHomeOfAnother(t *testing.T) {
	testnet.Root(t)
	dir := t.TempDir()
	if err := os.Chown(dir, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	if got, note := Home(0, dir, "/t"); got != "/run/nettoll/labs" || !strings.Contains(note, "belongs to another user") {
		t.Errorf("Home = %q, %q", got, note)
	}
}

// Files that somebody else put into a registry are neither read nor written.
func TestPlanted(t *testing.T) {
	testnet.Root(t)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte(`{"id": "precious"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := registry(t)
	dir, lock, err := r.Claim("a")
	testnet.Skip(t, err)
	defer lock.Close()
	defer dir.Close()
	for name, use := range map[string]func() error{
		entryFile: func() error { _, err := r.Entries(); return err },
		specFile:  func() error { _, err := dir.Read(specFile); return err },
		logFile: func() error {
			f, err := dir.File(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			if err == nil {
				_ = f.Close()
			}
			return err
		},
	} {
		if err := os.Symlink(victim, filepath.Join(r.path, "a", name)); err != nil {
			t.Fatal(err)
		}
		if err := use(); err == nil {
			t.Errorf("%s leads elsewhere, and is used", name)
		}
		if err := os.Remove(filepath.Join(r.path, "a", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(r.path, "a"), stranger, stranger); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Entries(); err == nil || !strings.Contains(err.Error(), "belongs to user 4242") {
		t.Errorf("the lab of a stranger: %v", err)
	}
	if err := os.Chown(r.path, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRegistry(r.path); err == nil || !strings.Contains(err.Error(), "belongs to user 4242") {
		t.Errorf("the registry of a stranger: %v", err)
	}
}
