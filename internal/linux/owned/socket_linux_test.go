package owned

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A socket is reached after its path and its directory are removed, by several connections, until it is closed.
func TestHoldSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // it is closed
			}
			_, _ = io.WriteString(conn, "here")
			_ = conn.Close()
		}
	}()
	f, address, err := HoldSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		conn, err := net.Dial("unix", address)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "here" {
			t.Errorf("got %q, %v", got, err)
		}
		_ = conn.Close()
	}
	_ = l.Close()
	if conn, err := net.Dial("unix", address); err == nil {
		_ = conn.Close()
		t.Error("a socket that is closed still answers")
	}
}

func TestHoldSocketRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file: "is not a socket", link: "is not a socket", filepath.Join(dir, "none"): "no such file or directory",
	} {
		if _, _, err := HoldSocket(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
